//go:build linux

// Package asks is the daemon's API over the bus, with what the daemon tells the link's user: requests come as messages,
// and answers leave in parts.
package asks

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
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/receipts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
)

const (
	maxQuestion  = 16 << 10         // bytes of a message
	maxDocuments = 8                // questions that are answered at the same time
	maxStreams   = 8                // … with a stream
	maxReceipts  = 64               // … with the receipt of a command, which may be waited for
	maxAnswer    = 64 << 20         // bytes of a document
	askTime      = 20 * time.Second // the daemon has for a document
	postTime     = 10 * time.Second // … and for a command
)

// receipt is what a link always answers: about a command, to those who know its 128 bits of id.
var receipt = regexp.MustCompile(`^/v1/commands/[0-9a-f]{32}$`)

// Asks answers questions. The daemon decides what is for remote callers, what the link's user may read, and hides what it must.
type Asks struct {
	All               bool          // questions of any kind, not only about commands
	Answered, Refused atomic.Uint64 // since the start

	daemon             http.Client
	documents, streams chan struct{}
	receipts           chan struct{} // questions that wait for a receipt
	mu                 sync.Mutex
	read               map[string]*time.Timer // streams, by who asked: they end with the timer
}

// New asks the daemon on that socket.
func New(socket string) *Asks {
	return &Asks{
		daemon: http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", socket)
				},
				IdleConnTimeout: time.Second, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		documents: make(chan struct{}, maxDocuments), streams: make(chan struct{}, maxStreams), receipts: make(chan struct{}, maxReceipts),
		read: make(map[string]*time.Timer),
	}
}

// Take begins to answer a question, in the background, until ctx is done. asker tells apart who asks.
func (a *Asks) Take(ctx context.Context, question []byte, asker string, answer func(*bus.Message) error) {
	if asker == "" {
		return
	}
	u, err := a.parse(question)
	stream := err == nil && u.Path == link.StreamPath
	if stream && a.again(asker) {
		return
	}
	room := a.documents
	switch {
	case stream:
		room = a.streams
	case err == nil && receipt.MatchString(u.Path):
		room = a.receipts
	}
	if err == nil {
		select {
		case room <- struct{}{}:
		default:
			err = api.NewError(api.CodeTooMany, "the host answers many questions now", "try again")
		}
	}
	if err != nil {
		a.Refused.Add(1)
		Refuse(err, answer)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if stream {
		a.begin(asker, cancel)
	}
	go func() {
		defer func() { <-room }()
		defer cancel()
		if stream {
			defer a.end(asker)
		} else {
			var over context.CancelFunc
			ctx, over = context.WithTimeout(ctx, askTime)
			defer over()
		}
		a.Answered.Add(1)
		_, _ = a.pass(ctx, http.MethodGet, u.RequestURI(), nil, stream, answer)
	}()
}

// begin notes that somebody reads a stream.
func (a *Asks) begin(asker string, cancel func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read[asker] = time.AfterFunc(link.StreamTime, cancel)
}

// again reports whether somebody reads a stream already, and gives it more time.
func (a *Asks) again(asker string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.read[asker]
	if t != nil {
		t.Reset(link.StreamTime)
	}
	return t != nil
}

func (a *Asks) end(asker string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read[asker].Stop()
	delete(a.read, asker)
}

// parse reads a question.
func (a *Asks) parse(question []byte) (*url.URL, error) {
	var q link.Question
	if len(question) > maxQuestion || json.Unmarshal(question, &q) != nil {
		return nil, api.NewError(api.CodeBadRequest, "not a question", "")
	}
	u, err := url.ParseRequestURI(q.Path)
	if err != nil || u.Host != "" || u.EscapedPath() != u.Path || !strings.HasPrefix(u.Path, "/") || !a.All && !receipt.MatchString(u.Path) {
		return nil, api.NewError(api.CodeDenied, fmt.Sprintf("the link does not answer %.100q", q.Path), "")
	}
	if u.Query().Has("wait") && !receipt.MatchString(u.Path) {
		return nil, api.NewError(api.CodeBadRequest, "the link does not wait for an end", "")
	}
	return u, nil
}

// Post passes a signed command on, and returns the daemon's status.
func (a *Asks) Post(ctx context.Context, command []byte, answer func(*bus.Message) error) (status int, err error) {
	ctx, over := context.WithTimeout(ctx, postTime)
	defer over()
	return a.pass(ctx, http.MethodPost, "/v1/commands", command, false, answer)
}

// pass passes a request on, and what the daemon answers.
func (a *Asks) pass(ctx context.Context, method, path string, body []byte, stream bool, answer func(*bus.Message) error) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://lineage"+path, bytes.NewReader(body))
	var resp *http.Response
	if err == nil {
		req.Header.Set(api.HeaderRemote, "1")
		resp, err = a.daemon.Do(req)
	}
	if err != nil {
		why := "the daemon does not answer"
		if body != nil {
			why += "; whether it took the command is not known"
		}
		Refuse(api.NewError(api.CodeStopping, why, ""), answer)
		return 0, err
	}
	defer resp.Body.Close()
	head := map[string]string{
		link.StatusHeader: strconv.Itoa(resp.StatusCode), api.HeaderAPI: resp.Header.Get(api.HeaderAPI), api.HeaderVersion: resp.Header.Get(api.HeaderVersion),
	}
	buffer := make([]byte, link.PartBytes)
	for part, size := 0, 0; ; part++ {
		n, err := fill(resp.Body, buffer, !stream)
		size += n
		m := &bus.Message{Head: head}
		head = map[string]string{} // of the next part
		m.Head[link.PartHeader] = strconv.Itoa(part)
		switch {
		case err == nil && !stream && size > maxAnswer:
			m.Head[link.BrokenHeader], n = fmt.Sprintf("it is larger than %d MiB", maxAnswer>>20), 0
		case err == nil:
			m.Head[link.MoreHeader] = "1"
		case !errors.Is(err, io.EOF):
			m.Head[link.BrokenHeader] = "the daemon has broken off"
		}
		body, encoding, packed := receipts.Pack(buffer[:n])
		if m.Body, m.Encoding = body, encoding; packed != nil || answer(m) != nil || m.Head[link.MoreHeader] == "" {
			return resp.StatusCode, nil
		}
	}
}

// fill reads what there is, or with whole until the buffer is full.
func fill(r io.Reader, buffer []byte, whole bool) (n int, err error) {
	for n < len(buffer) && err == nil && (n == 0 || whole) {
		var more int
		more, err = r.Read(buffer[n:])
		n += more
	}
	return n, err
}

// Refuse is an answer of the link itself, as the daemon would give it.
func Refuse(err error, answer func(*bus.Message) error) {
	refused, ok := errors.AsType[*api.Error](err)
	if !ok {
		refused = api.NewError(api.CodeInternal, err.Error(), "")
	}
	body, _ := json.Marshal(api.ErrorDocument{Head: api.NewHead("error"), Error: refused}) // it is texts
	_ = answer(&bus.Message{Body: body, Head: map[string]string{
		link.PartHeader: "0", link.StatusHeader: strconv.Itoa(refused.Status()), api.HeaderAPI: strconv.Itoa(api.Major),
	}}) // the asker may be gone
}
