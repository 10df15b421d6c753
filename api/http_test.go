package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api/internal/require"
)

// serve runs h on a unix socket and gives the socket's path.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	socket, l := listen(t)
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	srv.Start()
	t.Cleanup(srv.Close)
	return socket
}

func listen(t *testing.T) (string, net.Listener) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lngtest-") // t.TempDir can pass the 108 bytes of a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return socket, l
}

// daemon answers /v1/version as a daemon does, and the rest with h.
func daemon(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderAPI, "1")
		w.Header().Set(HeaderVersion, "v9")
		if r.URL.Path == "/v1/version" {
			json.NewEncoder(w).Encode(Version{Version: "v9", API: 1})
			return
		}
		h(w, r)
	})
}

// A daemon that is stopped does not answer, but the kernel accepts connections for it.
// A caller with a shorter deadline gets that error instead.
func TestDialSilent(t *testing.T) {
	t.Parallel()
	socket, _ := listen(t)
	late := time.AfterFunc(3*answerTime, func() { panic("Dial still waits") })
	defer late.Stop()
	_, err := Dial(context.Background(), socket)
	if !errors.Is(err, ErrSilent) || !errors.As(err, new(*UnreachableError)) ||
		err.Error() != "the daemon at "+socket+" hangs or is stopped: no answer within 5s; restart it" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, socket); errors.Is(err, ErrSilent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func dial(t *testing.T, h http.HandlerFunc) Client {
	t.Helper()
	c, err := Dial(t.Context(), serve(t, daemon(h)))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// fails is the error of a call.
func fails[T any](_ *T, err error) error { return err }

func TestRequests(t *testing.T) {
	grace := int64(1500)
	at := time.Date(2026, 3, 4, 12, 0, 0, 5, time.FixedZone("x", 3600))
	const times = "since=2026-03-04T11%3A00%3A00.000000005Z&until=2026-03-04T11%3A00%3A00.000000005Z"
	for _, tt := range []struct {
		want string // method, path and query, body
		call func(context.Context, Client) error
	}{
		{"GET /v1/status", func(ctx context.Context, c Client) error { return fails(c.Status(ctx)) }},
		{"GET /v1/sessions", func(ctx context.Context, c Client) error { return fails(c.Sessions(ctx, "", "")) }},
		{"GET /v1/sessions?name=a%26b&state=all", func(ctx context.Context, c Client) error { return fails(c.Sessions(ctx, "all", "a&b")) }},
		{"POST /v1/sessions/k3x9q2/plan", func(ctx context.Context, c Client) error { return fails(c.Plan(ctx, "k3x9q2")) }},
		{`POST /v1/sessions/k3x9q2/end {"plan_token":"ab"}`, func(ctx context.Context, c Client) error {
			return fails(c.End(ctx, "k3x9q2", EndRequest{PlanToken: "ab"}))
		}},
		{"GET /v1/why?port=8080&proto=tcp", func(ctx context.Context, c Client) error { return fails(c.WhyPort(ctx, "tcp", 8080)) }},
		{"GET /v1/why?path=%2Fa+%26b", func(ctx context.Context, c Client) error { return fails(c.WhyPath(ctx, PathRef{Path: "/a &b"})) }},
		{"GET /v1/why?device=3&inode=18446744073709551615&path=%2Fa",
			func(ctx context.Context, c Client) error { return fails(c.WhyPath(ctx, PathRef{"/a", 3, 1<<64 - 1})) }},
		{"GET /v1/sessions/k3x9q2", func(ctx context.Context, c Client) error { return fails(c.Session(ctx, "k3x9q2")) }},
		{`POST /v1/sessions {"root":{"pid":7},"name":"n","grace_ms":1500}`, func(ctx context.Context, c Client) error {
			return fails(c.Create(ctx, NewSession{Root: Ref{PID: 7}, Name: "n", GraceMS: &grace}))
		}},
		{"GET /v1/sessions/a.b/tree?dead=all", func(ctx context.Context, c Client) error { return fails(c.Tree(ctx, "a.b", "all")) }},
		{`POST /v1/sessions/a/end {"now":true}`, func(ctx context.Context, c Client) error { return fails(c.End(ctx, "a", EndRequest{Now: true})) }},
		{"GET /v1/sessions/a/report?wait=1m0s", func(ctx context.Context, c Client) error { return fails(c.Report(ctx, "a", time.Hour)) }},
		{"GET /v1/sessions/a/report", func(ctx context.Context, c Client) error { return fails(c.Report(ctx, "a", 0)) }},
		{"GET /v1/processes/7@18446744073709551615", func(ctx context.Context, c Client) error { return fails(c.Process(ctx, "7@18446744073709551615")) }},
		{"GET /v1/policy", func(ctx context.Context, c Client) error { return fails(c.Policy(ctx)) }},
		{"GET /v1/policy/explain?ref=7", func(ctx context.Context, c Client) error { return fails(c.PolicyExplain(ctx, "7")) }},
		{"POST /v1/policy/reload", func(ctx context.Context, c Client) error { return fails(c.PolicyReload(ctx)) }},
		{"POST /v1/policy/resume", func(ctx context.Context, c Client) error { return fails(c.PolicyResume(ctx)) }},
		{`POST /v1/halt {"mode":"halt","reason":"r","sessions":["a"]}`, func(ctx context.Context, c Client) error {
			return fails(c.Halt(ctx, HaltRequest{Mode: ModeHalt, Reason: "r", Sessions: []string{"a"}}))
		}},
		{"GET /v1/why?ref=7%405", func(ctx context.Context, c Client) error { return fails(c.Why(ctx, "7@5")) }},
		{`POST /v1/daemon/stop {"unload":true}`, func(ctx context.Context, c Client) error { return c.Stop(ctx, true, false) }},
		{`POST /v1/processes/7@8/kill {"signal":"TERM"}`, func(ctx context.Context, c Client) error {
			return fails(c.Kill(ctx, "7@8", KillRequest{Signal: "TERM"}))
		}},
		{"GET /v1/history", func(ctx context.Context, c Client) error { return fails(c.History(ctx, HistoryQuery{})) }},
		{"GET /v1/history?limit=7&next=a+b&" + times, func(ctx context.Context, c Client) error {
			return fails(c.History(ctx, HistoryQuery{Since: at, Until: at, Limit: 7, Next: "a b"}))
		}},
		{"GET /v1/events?" + times, func(ctx context.Context, c Client) error {
			return c.Events(ctx, EventsQuery{Since: at, Until: at}, func(*Event) error { return nil })
		}},
		{"GET /v1/events?from=9223372036854775808&session=k3x9q2&snapshot=1&type=fork%2Cexit", func(ctx context.Context, c Client) error {
			q := EventsQuery{Session: "k3x9q2", Types: []EventType{"fork", "exit"}, From: 1 << 63, Snapshot: true}
			return c.Events(ctx, q, func(*Event) error { return nil })
		}},
		{"GET /v1/watch", func(ctx context.Context, c Client) error {
			return c.Watch(ctx, func(*Frame) error { return nil })
		}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			var got string
			c := dial(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
				w.WriteHeader(http.StatusAccepted)
				io.WriteString(w, `{"schema":"lineage/1","kind":"end","from the future":{"x":1}}`+"\n")
			})
			require.NoError(t, tt.call(t.Context(), c))
			require.Equal(t, got, tt.want)
		})
	}
}

// A word that cannot be a name must not reach the path.
func TestNamesThatAreNotSent(t *testing.T) {
	c := dial(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent %s", r.URL) })
	for _, s := range []string{"", ".", "..", "a/b", "../status", "a?b", "-a", "a\n", "ä", strings.Repeat("a", 65)} {
		_, err := c.Session(t.Context(), s)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeNotFound {
			t.Errorf("Session(%q) = %v, want not found", s, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "1@", "1@0", "a", "1/..", "99999999999"} {
		_, err := c.Process(t.Context(), s)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeBadRequest {
			t.Errorf("Process(%q) = %v, want bad request", s, err)
		}
	}
}

func TestErrorDocuments(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       Error
	}{
		{"whole", `{"kind":"error","error":{"code":"denied","message":"end a: not permitted","hint":"run with sudo","exit":4}}`,
			Error{Code: CodeDenied, Message: "end a: not permitted", Hint: "run with sudo", Exit: 4}},
		{"exit from the code", `{"error":{"code":"not_found","message":"m"}}`, Error{Code: CodeNotFound, Message: "m", Exit: 3}},
		{"code of the future", `{"error":{"code":"tired","message":"m"}}`, Error{Code: "tired", Message: "m", Exit: 1}},
		{"senseless exit", `{"error":{"code":"tired","message":"m","exit":99}}`, Error{Code: "tired", Message: "m", Exit: 1}},
		{"an error is never a success", `{"error":{"code":"denied","message":"m","exit":0}}`, Error{Code: CodeDenied, Message: "m", Exit: 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				io.WriteString(w, tt.body)
			})
			_, err := c.Session(t.Context(), "a")
			got, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			if got.Code != tt.want.Code || got.Message != tt.want.Message || got.Hint != tt.want.Hint || got.Exit != tt.want.Exit {
				t.Errorf("got %+v, want %+v", *got, tt.want)
			}
		})
	}
}

// TestHeadersTooLarge: net/http refuses such a request itself, without a document.
func TestHeadersTooLarge(t *testing.T) {
	socket, l := listen(t)
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: daemon(http.NotFound), MaxHeaderBytes: 4 << 10}}
	srv.Start()
	defer srv.Close()
	c, err := Dial(t.Context(), socket)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.WhyPath(t.Context(), PathRef{Path: "/" + strings.Repeat("a", 16<<10)})
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeTooLarge {
		t.Errorf("got %v", err)
	}
}

func TestDialRefusesAnotherMajor(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"by header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(HeaderAPI, "2")
			w.Header().Set(HeaderVersion, "v2.0.0")
			io.WriteString(w, `{"version":"v2.0.0","api":2}`)
		},
		"by document": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(HeaderAPI, "1")
			io.WriteString(w, `{"version":"v2.0.0","api":2}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Dial(t.Context(), serve(t, h))
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != CodeVersion || e.Exit != ExitUnreachable {
				t.Fatalf("got %#v, want code version, exit 5", err)
			}
			if msg := e.Error(); !strings.Contains(msg, "v2.0.0") || !strings.Contains(msg, "API 2") ||
				!strings.Contains(msg, "API 1") || strings.Contains(msg, "\n") {
				t.Errorf("message %q does not name both on one line", msg)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Run("no socket", func(t *testing.T) {
		wantUnreachable(t, filepath.Join(t.TempDir(), "none"), os.ErrNotExist, `start it as root with "lineage daemon"`)
	})
	t.Run("refused", func(t *testing.T) {
		socket, l := listen(t)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
		wantUnreachable(t, socket, nil, `start it as root with "lineage daemon"`)
	})
	t.Run("not permitted", func(t *testing.T) {
		err := &UnreachableError{Socket: "/s", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", os.ErrPermission)}}
		if !strings.Contains(err.Error(), "run with sudo") {
			t.Errorf("message %q does not say what to do", err)
		}
	})
	t.Run("another HTTP server", func(t *testing.T) {
		wantUnreachable(t, serve(t, http.NotFoundHandler()), ErrNotLineage, "not a lineage daemon")
	})
	t.Run("redirect", func(t *testing.T) {
		wantUnreachable(t, serve(t, http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound)), ErrNotLineage, "not a lineage daemon")
	})
	for name, reply := range map[string]string{
		"no HTTP":           "220 mail.example ESMTP\r\n",
		"version no JSON":   "HTTP/1.1 200 OK\r\nLineage-Api: 1\r\nContent-Length: 6\r\n\r\n<html>",
		"version an array":  "HTTP/1.1 200 OK\r\nLineage-Api: 1\r\nContent-Length: 2\r\n\r\n[]",
		"error no document": "HTTP/1.1 500 Oops\r\nLineage-Api: 1\r\nContent-Length: 2\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) { wantUnreachable(t, serveRaw(t, reply), ErrNotLineage, "not a lineage daemon") })
	}
	for name, reply := range map[string]string{
		"closed at once": "",
		"cut off":        "HTTP/1.1 200 OK\r\nLineage-Api: 1\r\nContent-Length: 90\r\n\r\n{\"version\":\"v",
	} {
		t.Run(name, func(t *testing.T) { wantUnreachable(t, serveRaw(t, reply), nil, "lost the daemon") })
	}
	t.Run("a server that never answers", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		socket := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }))
		if _, err := Dial(ctx, socket); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	})
}

func wantUnreachable(t *testing.T, socket string, is error, text string) {
	t.Helper()
	_, err := Dial(t.Context(), socket)
	u, ok := errors.AsType[*UnreachableError](err)
	if !ok || u.Socket != socket {
		t.Fatalf("got %v (%T), want an *UnreachableError of %s", err, err, socket)
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%v is not %v", err, is)
	}
	if msg := err.Error(); !strings.Contains(msg, text) || strings.Contains(msg, "\n") {
		t.Errorf("message %q, want one line with %q", msg, text)
	}
}

// serveRaw reads once from every connection, sends reply, and closes it.
func serveRaw(t *testing.T, reply string) string {
	t.Helper()
	socket, l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, reply)
			conn.Close()
		}
	}()
	return socket
}

func TestDaemonThatGoesAwayLater(t *testing.T) {
	c := dial(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := c.Session(t.Context(), "a")
	if _, ok := errors.AsType[*UnreachableError](err); !ok {
		t.Errorf("got %v (%T), want an *UnreachableError", err, err)
	}
}

// A daemon that dies after it has read a request may have done what it asks.
func TestDaemonThatDiesInTheMiddle(t *testing.T) {
	const may = `it may have done what was asked: see "lineage ls", "lineage history" and "lineage status"`
	for _, reply := range []string{"", "HTTP/1.1 200 OK\r\nLineage-Api: 1\r\nContent-Length: 90\r\n\r\n{\"kind\":\"r"} {
		c := newClient("/s", 0, func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, serveRaw(t, reply)) })
		for verb, ask := range map[string]func() error{
			"end":    func() error { _, err := c.End(t.Context(), "a", EndRequest{}); return err },
			"keep":   func() error { _, err := c.Keep(t.Context(), KeepRequest{}); return err },
			"halt":   func() error { _, err := c.Halt(t.Context(), HaltRequest{}); return err },
			"report": func() error { _, err := c.Report(t.Context(), "a", 0); return err },
		} {
			err := ask()
			if _, ok := errors.AsType[*UnreachableError](err); !ok || strings.Contains(err.Error(), may) != (verb != "report") {
				t.Errorf("%s, reply %q: %v", verb, reply, err)
			}
		}
	}
	gone := newClient("/s", 0, func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, filepath.Join(t.TempDir(), "none")) })
	if _, err := gone.End(t.Context(), "a", EndRequest{}); err == nil || strings.Contains(err.Error(), "may") {
		t.Errorf("nothing was sent: %v", err)
	}
}

func TestParseRef(t *testing.T) {
	for in, want := range map[string]Ref{
		"1":                      {PID: 1},
		"2147483647":             {PID: 1<<31 - 1},
		"7@18446744073709551615": {PID: 7, StartNS: 1<<64 - 1},
	} {
		got, err := ParseRef(in)
		if err != nil || got != want {
			t.Errorf("ParseRef(%q) = %v, %v, want %v", in, got, err, want)
		}
		if got.String() != in {
			t.Errorf("%q comes back as %q", in, got)
		}
	}
	for _, in := range []string{"", "0", "+1", "-1", " 1", "1 ", "1@", "@1", "1@0", "1@-1", "1@1@1", "2147483648", "x", "1@18446744073709551616"} {
		if got, err := ParseRef(in); err == nil {
			t.Errorf("ParseRef(%q) = %v, want an error", in, got)
		}
	}
}

func ExampleUnreachableError() {
	fmt.Println(&UnreachableError{Socket: "/run/lineage/lineage.sock", Err: os.ErrNotExist})
	// Output: no daemon at /run/lineage/lineage.sock; start it as root with "lineage daemon" or "lineage run"
}
