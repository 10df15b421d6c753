//go:build linux

package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/asks"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// fakeBus has a function for each subject, which sends what is answered.
type fakeBus map[string]func(ctx context.Context, body []byte, send func(*bus.Message) error)

func (f fakeBus) Hosts(context.Context) ([]string, error) { return []string{"web1", "web2"}, nil }

func (f fakeBus) Ask(ctx context.Context, subject string, body []byte, _ time.Duration, each func(*bus.Message) (bool, error)) error {
	take := f[subject]
	if take == nil {
		return bus.ErrNobody
	}
	messages := make(chan *bus.Message, 1000)
	go take(ctx, body, func(m *bus.Message) error {
		m.Body = bytes.Clone(m.Body)
		messages <- m
		return nil
	})
	for {
		select {
		case m := <-messages:
			if more, err := each(m); !more || err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dial serves a proxy over the bus, and returns what connects to a host of it.
func dial(t *testing.T, b Bus) func(host string) api.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- New(b, "1.2.3").Serve(ctx, ln) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return func(host string) api.Client {
		c, err := api.DialOver(ctx, host, func(context.Context) (net.Conn, error) {
			c, err := net.Dial("unix", socket)
			require.NoError(t, err)
			_, err = io.WriteString(c, host+"\n")
			return c, err
		})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// link1 is a host whose daemon answers with what a handler writes.
func link1(t *testing.T, handler http.HandlerFunc) func(context.Context, []byte, func(*bus.Message) error) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s := &http.Server{Handler: handler}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	a := asks.New(socket)
	a.All = true
	return func(ctx context.Context, body []byte, send func(*bus.Message) error) {
		a.Take(ctx, body, "_INBOX.x", send)
	}
}

// TestRead: a client gets through proxy and link what the daemon answers: documents, also large ones, errors,
// and a stream line by line.
func TestRead(t *testing.T) {
	names := make([]api.Session, 20_000)
	for i := range names {
		names[i].ID = strings.Repeat("x", 60)
	}
	lines := make(chan string)
	to := dial(t, fakeBus{link.AskSubject("web1"): link1(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderAPI, "1")
		switch r.URL.Path {
		case "/v1/sessions":
			require.Equal(t, r.URL.RawQuery, "name=a+b&state=all")
			json.NewEncoder(w).Encode(api.Sessions{Items: names})
		case "/v1/sessions/none":
			e := api.NewError(api.CodeNotFound, "session none: not found", "")
			w.WriteHeader(e.Status())
			json.NewEncoder(w).Encode(api.ErrorDocument{Error: e})
		case "/v1/watch":
			for line := range lines {
				io.WriteString(w, line)
				w.(http.Flusher).Flush()
			}
		}
	})})
	c := to("web1")
	list, err := c.Sessions(t.Context(), "all", "a b")
	require.NoError(t, err)
	require.Equal(t, len(list.Items), len(names))
	_, err = c.Session(t.Context(), "none")
	require.Equal(t, err.Error(), "session none: not found")
	go func() { lines <- `{"kind":"snapshot"}` + "\n" }()
	err = c.Watch(t.Context(), api.WatchQuery{}, func(f *api.Frame) error {
		if f.Kind == "snapshot" {
			go func() { lines <- `{"kind":"end","reason":"stopping"}` + "\n"; close(lines) }()
		}
		return nil
	})
	require.NoError(t, err)
	_, err = c.End(t.Context(), "build", api.EndRequest{})
	require.Contains(t, err.Error(), "only asked", "use --sign")
	_, err = to("web2").Status(t.Context())
	refused, ok := errors.AsType[*api.Error](err)
	if !ok || refused.Exit != api.ExitUnreachable || !strings.Contains(refused.Message, "no link of this host") {
		t.Errorf("a host without a link: %v", err)
	}
}

// TestHostileAnswers: what no link would answer is an error, and never a whole document.
func TestHostileAnswers(t *testing.T) {
	part := func(n, more, status string, body string) *bus.Message {
		return &bus.Message{Body: []byte(body), Head: map[string]string{link.PartHeader: n, link.MoreHeader: more, link.StatusHeader: status, api.HeaderAPI: "1"}}
	}
	bomb := part("0", "", "200", "")
	bomb.Encoding = link.Gzip
	for name, all := range map[string][]*bus.Message{
		"no head":         {{Body: []byte(`{}`)}},
		"no status":       {part("0", "", "", `{}`)},
		"bad status":      {part("0", "", "99", `{}`)},
		"starts late":     {part("1", "", "200", `{}`)},
		"repeats":         {part("0", "1", "200", `{"items":[`), part("0", "", "200", `]}`)},
		"skips":           {part("0", "1", "200", `{"items":[`), part("2", "", "", `]}`)},
		"breaks off":      {part("0", "1", "200", `{"items":[`), {Head: map[string]string{link.PartHeader: "1", link.BrokenHeader: "x"}}},
		"not gzip":        {bomb},
		"too large":       {part("0", "", "200", strings.Repeat(" ", link.PartBytes)+"{}")},
		"not a daemon":    {part("0", "", "200", "hello")},
		"without the API": {{Body: []byte(`{}`), Head: map[string]string{link.PartHeader: "0", link.StatusHeader: "200"}}},
	} {
		to := dial(t, fakeBus{link.AskSubject("web1"): func(_ context.Context, _ []byte, send func(*bus.Message) error) {
			for _, m := range all {
				send(&bus.Message{Body: m.Body, Encoding: m.Encoding, Head: m.Head})
			}
		}})
		if list, err := to("web1").Sessions(t.Context(), "all", ""); err == nil {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// TestCommand: a command and the question for its receipt reach the daemon, which waits no longer than an answer may
// take; what is refused says why.
func TestCommand(t *testing.T) {
	const id = "00112233445566778899aabbccddeeff"
	answer := func(status int, doc any) func(context.Context, []byte, func(*bus.Message) error) {
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		return func(_ context.Context, _ []byte, send func(*bus.Message) error) {
			send(&bus.Message{Body: body, Head: map[string]string{link.PartHeader: "0", link.StatusHeader: strconv.Itoa(status), api.HeaderAPI: "1"}})
		}
	}
	to := dial(t, fakeBus{
		link.CommandSubject("web1"): func(ctx context.Context, body []byte, send func(*bus.Message) error) {
			require.Contains(t, string(body), `\"id\":\"c1\"`)
			answer(200, &api.CommandReply{Receipt: "begun"})(ctx, body, send)
		},
		link.AskSubject("web1"): link1(t, func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, r.URL.RequestURI(), "/v1/commands/"+id+"?wait=4s")
			w.Header().Set(api.HeaderAPI, "1")
			json.NewEncoder(w).Encode(&api.CommandReply{Receipt: "over"})
		}),
		link.CommandSubject("web2"): answer(403, api.ErrorDocument{Error: api.NewError(api.CodeDenied, "command refused: it has expired", "")}),
		link.CommandSubject("web3"): answer(99, &api.CommandReply{Receipt: "over"}), // hostile
	})
	signed := api.SignedCommand{Command: `{"id":"c1"}`, Signatures: []string{"s"}}
	c := to("web1")
	d, err := c.Command(t.Context(), signed)
	require.NoError(t, err)
	require.Equal(t, d.Receipt, "begun")
	d, err = c.CommandReceipt(t.Context(), id, time.Minute)
	require.NoError(t, err)
	require.Equal(t, d.Receipt, "over")
	for host, why := range map[string]string{"web2": "command refused: it has expired", "web3": "not that of a link", "web4": "nothing was sent"} {
		_, err := to(host).Command(t.Context(), signed)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", host, err, why)
		}
	}
}

// TestNaming: connections that name no host are closed, and others are served meanwhile.
func TestNaming(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go New(fakeBus{}, "1").Serve(ctx, ln)
	for _, line := range []string{"web1.>\n", strings.Repeat("a", 400), "a b\n", "web1\r\n"} {
		c, err := net.Dial("unix", socket)
		require.NoError(t, err)
		io.WriteString(c, line)
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: %d bytes", line, n)
		}
		c.Close()
	}
	c, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "\nGET /hosts HTTP/1.0\r\n\r\n")
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(text), "\r\n\r\n[\"web1\",\"web2\"]\n")
}
