//go:build linux

package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestRefused: only paths of the API reach the daemon, without All only the receipt of a command; and who wants no answer, or one at
// a server's own subject, gets none.
func TestRefused(t *testing.T) {
	s := newServer(t, nil)
	h := s.host("web1", func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the daemon was asked for %s", r.URL) })
	ann := s.client("$JS.>", nil)
	for i, path := range []string{
		"", "/v1/sessions/%2e%2e/tree", "/v1/sessions/a%2Fend", "http://web1/v1/status", "/v1/sessions/a/report?wait=60", "*", "/v1/sessions\n",
		strings.Repeat("/", maxQuestion), "/v1/status", "/v1/watch", "/v1/commands/0123", "/v1/commands/" + strings.Repeat("0", 32) + "/x",
	} {
		h.All = i < 8
		m := s.next(s.ask(ann, "web1", path))
		var doc api.ErrorDocument
		require.NoError(t, json.Unmarshal(m.Data, &doc))
		if status := m.Header.Get(service.StatusHeader); status != "403" && status != "400" || doc.Error.Message == "" || m.Header.Get(service.MoreHeader) != "" {
			t.Errorf("%q: %v %s", path, m.Header, m.Data)
		}
	}
	h.All = true
	own, err := ann.SubscribeSync("$JS.API.X")
	require.NoError(t, err)
	require.NoError(t, ann.Publish(service.AskSubject("web1"), []byte(`{"path":"/v1/status"}`)), ann.Publish(service.CommandSubject("web1"), nil),
		ann.PublishRequest(service.AskSubject("web1"), own.Subject, []byte(`{"path":"/v1/status"}`)),
		ann.PublishRequest(service.CommandSubject("web1"), own.Subject, nil))
	s.next(s.ask(ann, "web1", "")) // comes after all that
	require.NoError(t, ann.Flush())
	if n, _, err := own.Pending(); n != 0 || err != nil {
		t.Errorf("%d answers, %v", n, err)
	}
}

// TestParts: a large document comes in parts, its status and an error of the daemon as they are; what is
// cut off, or too large, says so in its last part.
func TestParts(t *testing.T) {
	large := strings.Repeat(`{"name":"build"}`, 2*service.PartBytes/16) + "end"
	s := newServer(t, nil)
	s.host("none", nil)
	s.host("web1", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/sessions":
			fmt.Fprint(w, large)
		case "/v1/status":
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
	ann := s.client("", nil)
	answers := s.ask(ann, "web1", "/v1/sessions")
	var body, sent int
	for part := range 3 {
		m := s.next(answers)
		if m.Header.Get(service.PartHeader) != fmt.Sprint(part) || (m.Header.Get(service.MoreHeader) == "") != (part == 2) ||
			m.Header.Get(service.BrokenHeader) != "" ||
			m.Header.Get(service.StatusHeader) != []string{"200", "", ""}[part] {
			t.Errorf("part %d: %v, %d bytes", part, m.Header, len(m.Data))
		}
		if m.Header.Get(service.EncodingHeader) == "" {
			body += len(m.Data)
		} else {
			sent += len(m.Data)
		}
	}
	if body != 3 || sent == 0 || sent > len(large)/100 {
		t.Errorf("%d bytes as they are, %d compressed", body, sent)
	}
	m := s.next(s.ask(ann, "web1", "/v1/status?a=b"))
	require.Equal(t, m.Header.Get(service.StatusHeader)+" "+string(m.Data)+" "+m.Header.Get(api.HeaderAPI), "403 noa=b 1")
	require.Equal(t, s.next(s.ask(ann, "web1", "/v1/leaks")).Header.Get(service.BrokenHeader), "the daemon has broken off")
	for answers = s.ask(ann, "web1", "/v1/history"); m.Header.Get(service.BrokenHeader) == ""; {
		m = s.next(answers)
	}
	require.Equal(t, m.Header.Get(service.BrokenHeader), "it is larger than 64 MiB")
	require.Equal(t, s.next(s.ask(ann, "none", "/v1/status")).Header.Get(service.StatusHeader), "503")
}

// TestTooMany: more than a few questions at once are refused, and their places are free afterwards.
func TestTooMany(t *testing.T) {
	hold := make(chan struct{})
	s := newServer(t, nil)
	s.host("web1", func(w http.ResponseWriter, _ *http.Request) { <-hold; io.WriteString(w, "{}") })
	ann := s.client("", nil)
	status := func() string { return s.next(s.ask(ann, "web1", "/v1/status")).Header.Get(service.StatusHeader) }
	var held []*nats.Subscription
	for range maxDocuments {
		held = append(held, s.ask(ann, "web1", "/v1/status"))
	}
	require.Equal(t, status(), "429")
	close(hold)
	for _, answers := range held {
		require.Equal(t, s.next(answers).Header.Get(service.StatusHeader), "200")
	}
	require.Eventually(t, "free places", func() bool { return status() == "200" })
}

// aCommand ends a session, and holds for a minute.
func aCommand() api.Command {
	now := time.Now()
	return api.Command{
		V:        1,
		ID:       api.NewCommandID(),
		Verb:     api.VerbEnd,
		Hosts:    []string{"h"},
		Sessions: []string{"x"},
		Reason:   "a test",
		Issued:   now,
		NotAfter: now.Add(time.Minute),
	}
}

// TestOrder: the daemon gets what can be a command as it is, and its answer is that of the host; anything else it does not get, and a
// flood is a line.
func TestOrder(t *testing.T) {
	text := aCommand().Text()
	good, err := json.Marshal(&api.SignedCommand{Command: text})
	require.NoError(t, err)
	s := newServer(t, nil)
	s.host("none", nil)
	h := s.host("web1", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		require.Equal(t, fmt.Sprint(r.Method, r.URL.Path, string(body)), "POST/v1/commands"+string(good))
		w.WriteHeader(http.StatusAccepted)
	})
	var log lines
	h.quiet = quiet(zerolog.New(&log))
	ann := s.client("", nil)
	for name, c := range map[string]struct {
		host, want string
		message    []byte
	}{
		"good":        {"web1", "202 ", good},
		"no daemon":   {"none", "503 the daemon does not answer; whether it took the command is not known", good},
		"nothing":     {"web1", "400 not a signed command", nil},
		"garbage":     {"web1", "400 not a signed command", []byte("\x00\xff{")},
		"cut off":     {"web1", "400 not a signed command", good[:len(good)-3]},
		"oversize":    {"web1", "400 not a signed command", append(bytes.Repeat([]byte(" "), maxOrder), good...)},
		"deep":        {"web1", "400 not a signed command", []byte(strings.Repeat("[", 20000))},
		"no id":       {"web1", "400 32 hexadecimal digits", []byte(`{"command":"{\"v\":1,\"id\":\"../x\"}"}`)},
		"not ours":    {"web1", "400 not JSON", []byte(`{"command":"end all"}`)},
		"reason gone": {"web1", "400 the reason must be", bytes.Replace(good, []byte("a test"), nil, 1)},
	} {
		m := s.next(s.send(ann, service.CommandSubject(c.host), c.message))
		status, why, _ := strings.Cut(c.want, " ")
		if m.Header.Get(service.StatusHeader) != status || !strings.Contains(string(m.Data), why) {
			t.Errorf("%s: %v %s", name, m.Header, m.Data)
		}
	}
	require.Equal(t, strings.Count(log.String(), "\n"), 1)
}
