//go:build linux

package asks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// serve is a daemon that answers with what a handler writes.
func serve(t *testing.T, handler http.HandlerFunc) *Asks {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s := &http.Server{Handler: handler}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	a := New(socket)
	a.All = true
	return a
}

// ask asks for a path, and returns what is answered, in a channel that is closed when nothing more comes.
func ask(ctx context.Context, a *Asks, path, asker string) <-chan *bus.Message {
	all := make(chan *bus.Message, 1000)
	question, _ := json.Marshal(link.Question{Path: path})
	a.Take(ctx, question, asker, func(m *bus.Message) error {
		m.Body = bytes.Clone(m.Body)
		all <- m
		if m.Head[link.MoreHeader] == "" {
			close(all)
		}
		return nil
	})
	return all
}

// TestRefused: only paths of the API reach the daemon, and without All only the receipt of a command.
func TestRefused(t *testing.T) {
	a := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the daemon was asked for %s", r.URL) })
	for i, path := range []string{
		"", "/v1/sessions/%2e%2e/tree", "/v1/sessions/a%2Fend", "http://web1/v1/status", "/v1/sessions/a/report?wait=60", "*", "/v1/sessions\n",
		"/v1/status", "/v1/watch", "/v1/commands/0123", "/v1/commands/" + strings.Repeat("0", 32) + "/x",
	} {
		a.All = i < 7
		m := <-ask(t.Context(), a, path, "_INBOX.x")
		var doc api.ErrorDocument
		require.NoError(t, json.Unmarshal(m.Body, &doc))
		if status := m.Head[link.StatusHeader]; status != "403" && status != "400" || doc.Error.Message == "" || m.Head[link.MoreHeader] != "" {
			t.Errorf("%q: %v %s", path, m.Head, m.Body)
		}
	}
	a.Take(t.Context(), []byte(`{"path":"/v1/status"}`), "", func(*bus.Message) error { t.Error("somebody is answered who wants no answer"); return nil })
	a.Take(t.Context(), bytes.Repeat([]byte(" "), maxQuestion+1), "_INBOX.x", func(*bus.Message) error { return nil })
	require.Equal(t, a.Answered.Load(), 0)
}

// TestParts: a large document comes in parts, its status and an error of the daemon as they are; what is
// cut off, or too large, says so in its last part.
func TestParts(t *testing.T) {
	large := strings.Repeat(`{"name":"build"}`, 2*link.PartBytes/16) + "end"
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderAPI, "1")
		switch r.URL.Path {
		case "/v1/sessions":
			fmt.Fprint(w, large)
		case "/v1/status":
			require.Equal(t, r.Header.Get(api.HeaderRemote), "1")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "no"+r.URL.RawQuery)
		case "/v1/leaks":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "short")
		case "/v1/history":
			for range maxAnswer/len(large) + 2 {
				fmt.Fprint(w, large)
			}
		}
	})
	var body, sent int
	last := -1
	for m := range ask(t.Context(), a, "/v1/sessions", "_INBOX.x") {
		last++
		if m.Head[link.PartHeader] != fmt.Sprint(last) || (m.Head[link.MoreHeader] == "") != (last == 2) || len(m.Body) > link.PartBytes || m.Head[link.BrokenHeader] != "" ||
			m.Head[link.StatusHeader] != []string{"200", "", ""}[last] {
			t.Errorf("part %d: %v, %d bytes", last, m.Head, len(m.Body))
		}
		if m.Encoding == "" {
			body += len(m.Body)
		} else {
			sent += len(m.Body)
		}
	}
	if last != 2 || body != 3 || sent == 0 || sent > len(large)/100 {
		t.Errorf("last part %d, %d bytes as they are, %d compressed", last, body, sent)
	}
	m := <-ask(t.Context(), a, "/v1/status?a=b", "_INBOX.x")
	require.Equal(t, m.Head[link.StatusHeader]+" "+string(m.Body)+" "+m.Head[api.HeaderAPI], "403 noa=b 1")
	require.Equal(t, (<-ask(t.Context(), a, "/v1/leaks", "_INBOX.x")).Head[link.BrokenHeader], "the daemon has broken off")
	for m = range ask(t.Context(), a, "/v1/history", "_INBOX.x") {
	}
	require.Equal(t, m.Head[link.BrokenHeader], "it is larger than 64 MiB")
	none := New(filepath.Join(t.TempDir(), "none"))
	none.All = true
	require.Equal(t, (<-ask(t.Context(), none, "/v1/status", "_INBOX.x")).Head[link.StatusHeader], "503")
}

// TestTooMany: more than a few questions at once are refused, and their places are free afterwards.
func TestTooMany(t *testing.T) {
	hold := make(chan struct{})
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) { <-hold; io.WriteString(w, "{}") })
	var held []<-chan *bus.Message
	for range maxDocuments {
		held = append(held, ask(t.Context(), a, "/v1/status", "_INBOX.x"))
	}
	require.Equal(t, (<-ask(t.Context(), a, "/v1/status", "_INBOX.x")).Head[link.StatusHeader], "429")
	close(hold)
	for _, c := range held {
		require.Equal(t, (<-c).Head[link.StatusHeader], "200")
	}
	require.Eventually(t, "free places", func() bool { return (<-ask(t.Context(), a, "/v1/status", "_INBOX.x")).Head[link.StatusHeader] == "200" })
}

// TestPost: the daemon gets a command as it is, and its status decides; without a daemon nothing is known.
func TestPost(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		require.Equal(t, fmt.Sprint(r.Method, r.URL.Path, string(body), r.Header.Get(api.HeaderRemote)), "POST/v1/commandssigned1")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "no")
	})
	for socket, want := range map[*Asks]string{a: "403 no", New(filepath.Join(t.TempDir(), "none")): "0 whether it took"} {
		var got string
		status, _ := socket.Post(t.Context(), []byte("signed"), func(m *bus.Message) error { got += string(m.Body); return nil })
		if want, text, _ := strings.Cut(want, " "); fmt.Sprint(status) != want || !strings.Contains(got, text) {
			t.Errorf("%d %s", status, got)
		}
	}
}

// TestStream: each line is a part of its own as soon as it is there; who asks again gets no second stream;
// it ends with who reads it.
func TestStream(t *testing.T) {
	lines, gone := make(chan string), make(chan struct{})
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case line := <-lines:
				io.WriteString(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				close(gone)
				return
			}
		}
	})
	ctx := t.Context()
	parts := ask(ctx, a, "/v1/watch?hz=1", "_INBOX.x")
	for i, line := range []string{"one\n", "two\n"} {
		lines <- line
		m := <-parts
		require.Equal(t, string(m.Body)+m.Head[link.PartHeader]+m.Head[link.MoreHeader], line+fmt.Sprint(i)+"1")
	}
	second := ask(ctx, a, "/v1/watch?hz=1", "_INBOX.x")
	require.Equal(t, a.Answered.Load(), 1)
	a.mu.Lock()
	a.read["_INBOX.x"].Reset(time.Millisecond) // nobody asks again
	a.mu.Unlock()
	<-gone
	require.Equal(t, (<-parts).Head[link.BrokenHeader], "the daemon has broken off")
	require.Equal(t, len(second), 0)
	require.Eventually(t, "end of the stream", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.read) == 0 })
}
