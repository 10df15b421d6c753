//go:build linux

package bus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const (
	helloTime  = 5 * time.Second  // a client has to name a host
	answerTime = 8 * time.Second  // a link has for each part
	acceptTime = 15 * time.Second // … and to accept a command
	maxNamed   = 256              // bytes of the line with the host
)

// proxy answers requests, of an operator's commands. The first line of a connection is the host that its requests are
// for.
type proxy struct {
	bus     *Bus
	version string
}

// Proxy is the API of many daemons on one socket, until ctx is done.
func (b *Bus) Proxy(ctx context.Context, ln net.Listener, version string) error {
	p := &proxy{b, version}
	type key struct{}
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Host, _ = r.Context().Value(key{}).(string)
			w.Header().Set(api.HeaderAPI, strconv.Itoa(api.Major))
			if err := p.answer(w, r); err != nil {
				said, ok := errors.AsType[*api.Error](err)
				if !ok {
					said = &api.Error{Code: api.CodeStopping, Message: err.Error(), Exit: api.ExitUnreachable}
				}
				w.WriteHeader(said.Status())
				_ = json.NewEncoder(w).Encode(api.ErrorDocument{Head: api.NewHead("error"), Error: said}) // the client may be gone
			}
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, key{}, c.(*named).host)
		},
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(&naming{ln}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the hosts: %w", err)
	}
	return nil
}

// naming is a listener that reads the first line of each connection.
type naming struct{ net.Listener }

type named struct {
	net.Conn
	host string
	rest *bufio.Reader
}

func (n *naming) Accept() (net.Conn, error) {
	for {
		c, err := n.Listener.Accept()
		if err != nil {
			return nil, err
		}
		r := bufio.NewReaderSize(c, maxNamed)
		line, err := "", c.SetReadDeadline(time.Now().Add(helloTime))
		if err == nil {
			var b []byte
			b, err = r.ReadSlice('\n')
			line = strings.TrimSuffix(string(b), "\n")
		}
		if err == nil {
			err = c.SetReadDeadline(time.Time{})
		}
		if err == nil && service.IsName(line) {
			return &named{c, line, r}, nil
		}
		c.Close()
	}
}

func (n *named) Read(b []byte) (int, error) { return n.rest.Read(b) }

// answer answers a request. After an error nothing of an answer was written.
func (p *proxy) answer(w http.ResponseWriter, r *http.Request) error {
	get := r.Method == http.MethodGet
	switch {
	case get && r.URL.Path == "/v1/version": // the proxy is there: whether the host is, the first question tells
		return json.NewEncoder(w).Encode(api.Version{Head: api.NewHead("version"),
			Version: p.version, API: api.Major})
	case r.Method == http.MethodPost && r.URL.Path == "/v1/commands":
		body, err := io.ReadAll(io.LimitReader(r.Body, maxOrder+1))
		if err != nil || len(body) > maxOrder {
			return api.NewError(api.CodeBadRequest, "not a signed command", "")
		}
		return p.ask(w, r, service.CommandSubject(r.Host), body, acceptTime)
	case get:
		q := r.URL.Query()
		if wait, err := time.ParseDuration(q.Get("wait")); err == nil { // no longer than an answer may take
			q.Set("wait", min(wait, answerTime/2).String())
			r.URL.RawQuery = q.Encode()
		}
		question, err := json.Marshal(service.Question{Path: r.URL.RequestURI()})
		if err != nil {
			return err
		}
		return p.ask(w, r, service.AskSubject(r.Host), question, answerTime)
	}
	return api.NewError(api.CodeMethod, "over NATS hosts are only asked, and take signed commands",
		"use --sign")
}

// ask sends a message to a host, and passes its answer on. The first part may take that long.
func (p *proxy) ask(w http.ResponseWriter, r *http.Request, subject string,
	message []byte, first time.Duration) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	late := time.AfterFunc(first, cancel)
	defer late.Stop()
	part := 0
	err := p.bus.Ask(ctx, subject, message, func(m *Message) (more bool, err error) {
		late.Reset(answerTime)
		if m.Head[service.PartHeader] != strconv.Itoa(part) {
			return false, errors.New("a part of the answer is missing")
		}
		body, err := m.unpack(service.PartBytes)
		if err != nil {
			return false, err
		}
		if why := m.Head[service.BrokenHeader]; why != "" {
			return false, fmt.Errorf("the answer is not whole: %.200q", why)
		}
		if part == 0 {
			status, err := strconv.Atoi(m.Head[service.StatusHeader])
			if err != nil || status < 200 || status > 599 {
				return false, errors.New("the answer is not that of a link")
			}
			w.Header().Set(api.HeaderAPI, m.Head[api.HeaderAPI])
			w.Header().Set(api.HeaderVersion, m.Head[api.HeaderVersion])
			w.WriteHeader(status)
		}
		part++
		if _, err := w.Write(body); err != nil {
			return false, err
		}
		return m.Head[service.MoreHeader] != "", nil
	})
	switch {
	case err == nil:
	case part > 0:
		panic(http.ErrAbortHandler) // the client sees that it is not whole
	case errors.Is(err, ErrNobody):
		return errors.New("no link of this host is on the bus; nothing was sent")
	case ctx.Err() != nil && r.Method == http.MethodPost:
		return fmt.Errorf("no answer within %v; whether the host took the command is not known", first)
	case ctx.Err() != nil:
		return fmt.Errorf("no answer within %v", answerTime)
	}
	return err
}
