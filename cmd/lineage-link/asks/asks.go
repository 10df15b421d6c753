//go:build linux

// Package asks answers what operators ask about this host, with what the daemon tells the link's user.
package asks

import (
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
	maxAnswer    = 64 << 20         // bytes of a document
	askTime      = 20 * time.Second // the daemon has for a document
)

// documents are what may be asked for. None of them changes anything, and each ends.
var documents = regexp.MustCompile(`^/v1/(status|sessions|sessions/[^/]+|sessions/[^/]+/(tree|report)|processes/[^/]+|why|orphans|leaks|history)$`)

// Asks answers questions. The daemon decides what the link's user may read, and hides what it must.
type Asks struct {
	Answered, Refused atomic.Uint64 // since the start

	daemon             http.Client
	documents, streams chan struct{}
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
		documents: make(chan struct{}, maxDocuments), streams: make(chan struct{}, maxStreams), read: make(map[string]*time.Timer),
	}
}

// Take begins to answer a question, in the background, until ctx is done. asker tells apart who asks.
func (a *Asks) Take(ctx context.Context, question []byte, asker string, answer func(*bus.Message) error) {
	if asker == "" {
		return
	}
	path, stream, err := read(question)
	if err == nil && stream && a.again(asker) {
		return
	}
	room := a.documents
	if stream {
		room = a.streams
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
		_ = answer(refusal(err)) // who asked may be gone
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
		a.pass(ctx, path, stream, answer)
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

// read reads a question.
func read(question []byte) (path string, stream bool, err error) {
	var q link.Question
	if len(question) > maxQuestion || json.Unmarshal(question, &q) != nil {
		return "", false, api.NewError(api.CodeBadRequest, "not a question", "")
	}
	u, err := url.ParseRequestURI(q.Path)
	if err != nil || u.Host != "" || u.EscapedPath() != u.Path || u.Path != link.StreamPath && !documents.MatchString(u.Path) {
		return "", false, api.NewError(api.CodeDenied, fmt.Sprintf("the link does not answer %.100q", q.Path), "")
	}
	if u.Query().Has("wait") {
		return "", false, api.NewError(api.CodeBadRequest, "the link does not wait for an end", "")
	}
	return u.Path + "?" + u.RawQuery, u.Path == link.StreamPath, nil
}

// pass passes on what the daemon answers.
func (a *Asks) pass(ctx context.Context, path string, stream bool, answer func(*bus.Message) error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lineage"+path, nil)
	var resp *http.Response
	if err == nil {
		resp, err = a.daemon.Do(req)
	}
	if err != nil {
		_ = answer(refusal(api.NewError(api.CodeStopping, "the daemon does not answer", "")))
		return
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
			return
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

// refusal is an answer of the link itself, as the daemon would give it.
func refusal(err error) *bus.Message {
	refused, ok := errors.AsType[*api.Error](err)
	if !ok {
		refused = api.NewError(api.CodeInternal, err.Error(), "")
	}
	body, _ := json.Marshal(api.ErrorDocument{Head: api.NewHead("error"), Error: refused}) // it is texts
	return &bus.Message{Body: body, Head: map[string]string{
		link.PartHeader: "0", link.StatusHeader: strconv.Itoa(refused.Status()), api.HeaderAPI: strconv.Itoa(api.Major),
	}}
}
