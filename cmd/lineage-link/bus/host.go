//go:build linux

package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const (
	maxQuestion  = 16 << 10         // bytes of a message
	maxOrder     = 64 << 10         // … with a signed command, as the daemon takes it
	maxDocuments = 8                // questions that are answered at the same time
	maxReceipts  = 64               // … with the receipt of a command, which may be waited for
	maxAnswer    = 64 << 20         // bytes of a document
	askTime      = 20 * time.Second // the daemon has for a document
	postTime     = 10 * time.Second // … and for a command
)

// receipt is what a link always answers: about a command, to those who know its 128 bits of id.
var receipt = regexp.MustCompile(`^/v1/commands/[0-9a-f]{32}$`)

// Host answers for the daemon. The daemon decides what is for other hosts, who signed a command and what the link's user
// may read, and hides what it must.
type Host struct {
	All bool // it answers questions of any kind, not only about commands

	daemon              http.Client
	documents, receipts chan struct{} // questions that are answered
	quiet               zerolog.Logger
}

func NewHost(socket string, log zerolog.Logger) *Host {
	return &Host{
		daemon: http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", socket)
				},
				IdleConnTimeout: time.Second, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		documents: make(chan struct{}, maxDocuments), receipts: make(chan struct{}, maxReceipts),
		quiet: quiet(log),
	}
}

// Serve answers what comes for the host of that name, until the connection is closed.
func (h *Host) Serve(ctx context.Context, b *Bus, name string) error {
	to := func(m *Message) func(*Message) error {
		return func(answer *Message) error { return b.Answer(m, answer) }
	}
	return errors.Join(
		b.Subscribe(service.CommandSubject(name), func(m *Message) { h.order(ctx, m.Body, to(m)) }),
		b.Subscribe(service.AskSubject(name), func(m *Message) {
			if m.Asker() != "" {
				h.ask(ctx, m.Body, to(m))
			}
		}))
}

// order passes a signed command on. What cannot be one does not reach the daemon, which answers few requests a second.
func (h *Host) order(ctx context.Context, command []byte, answer func(*Message) error) {
	var signed api.SignedCommand
	err := error(api.NewError(api.CodeBadRequest, "not a signed command", ""))
	if len(command) <= maxOrder && json.Unmarshal(command, &signed) == nil {
		if _, err = api.ParseCommand(signed.Command); err != nil {
			err = api.NewError(api.CodeBadRequest, "not a signed command: "+err.Error(), "")
		}
	}
	if err == nil {
		ctx, over := context.WithTimeout(ctx, postTime)
		defer over()
		var status int
		status, err = h.pass(ctx, http.MethodPost, "/v1/commands", command, answer)
		if err == nil && status != http.StatusAccepted {
			err = fmt.Errorf("the daemon answers %d", status)
		}
	} else {
		refuse(err, answer)
	}
	if err != nil {
		h.quiet.Warn().Err(err).Msg("command refused")
	}
}

// ask begins to answer a question, in the background, until ctx is done.
func (h *Host) ask(ctx context.Context, question []byte, answer func(*Message) error) {
	u, err := h.parse(question)
	room := h.documents
	if err == nil && receipt.MatchString(u.Path) {
		room = h.receipts
	}
	if err == nil {
		select {
		case room <- struct{}{}:
		default:
			err = api.NewError(api.CodeTooMany, "the host answers many questions now", "try again")
		}
	}
	if err != nil {
		refuse(err, answer)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		_, _ = h.pass(ctx, http.MethodGet, u.RequestURI(), nil, answer)
		<-room
	}()
}

func (h *Host) parse(question []byte) (*url.URL, error) {
	var q service.Question
	if len(question) > maxQuestion || json.Unmarshal(question, &q) != nil {
		return nil, api.NewError(api.CodeBadRequest, "not a question", "")
	}
	u, err := url.ParseRequestURI(q.Path)
	if err != nil || u.Host != "" || u.EscapedPath() != u.Path || !strings.HasPrefix(u.Path, "/") ||
		!h.All && !receipt.MatchString(u.Path) {
		return nil, api.Errorf(api.CodeDenied, "the link does not answer %.100q", q.Path)
	}
	if u.Query().Has("wait") && !receipt.MatchString(u.Path) {
		return nil, api.NewError(api.CodeBadRequest, "the link does not wait for an end", "")
	}
	return u, nil
}

// pass passes a request on, and what the daemon answers, in parts. An error says that it does not answer.
func (h *Host) pass(
	ctx context.Context, method, path string, body []byte, answer func(*Message) error,
) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://lineage"+path, bytes.NewReader(body))
	var resp *http.Response
	if err == nil {
		req.Header.Set(api.HeaderRemote, "1")
		resp, err = h.daemon.Do(req)
	}
	if err != nil {
		why := "the daemon does not answer"
		if body != nil {
			why += "; whether it took the command is not known"
		}
		refuse(api.NewError(api.CodeStopping, why, ""), answer)
		return 0, err
	}
	defer resp.Body.Close()
	head := map[string]string{
		service.StatusHeader: strconv.Itoa(resp.StatusCode),
		api.HeaderAPI:        resp.Header.Get(api.HeaderAPI),
		api.HeaderVersion:    resp.Header.Get(api.HeaderVersion),
	}
	buffer := make([]byte, service.PartBytes)
	for part, size := 0, 0; ; part++ {
		n, err := read(resp.Body, buffer)
		size += n
		m := &Message{Head: head}
		head = map[string]string{} // of the next part
		m.Head[service.PartHeader] = strconv.Itoa(part)
		switch {
		case err == nil && size > maxAnswer:
			m.Head[service.BrokenHeader], n = fmt.Sprintf("it is larger than %d MiB", maxAnswer>>20), 0
		case err == nil:
			m.Head[service.MoreHeader] = "1"
		case !errors.Is(err, io.EOF):
			m.Head[service.BrokenHeader] = "the daemon has broken off"
		}
		if err := m.pack(buffer[:n]); err != nil || answer(m) != nil || m.Head[service.MoreHeader] == "" {
			return resp.StatusCode, nil
		}
	}
}

// read reads until the buffer is full. The error is the reader's: that of [io.ReadFull] could be either end.
func read(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = r.Read(buffer[n:])
		n += more
	}
	return n, err
}

// refuse is an answer of the link itself, as the daemon would give it.
func refuse(err error, answer func(*Message) error) {
	refused, ok := errors.AsType[*api.Error](err)
	if !ok {
		refused = api.NewError(api.CodeInternal, err.Error(), "")
	}
	body, _ := json.Marshal(api.ErrorDocument{Head: api.NewHead("error"), Error: refused}) // it is texts
	_ = answer(&Message{Body: body, Head: map[string]string{
		service.PartHeader: "0", service.StatusHeader: strconv.Itoa(refused.Status()),
		api.HeaderAPI: strconv.Itoa(api.Major),
	}}) // the asker may be gone
}
