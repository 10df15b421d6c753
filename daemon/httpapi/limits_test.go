//go:build linux

package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// raw sends bytes and reads the reply, as a kind of caller.
func (w *world) raw(who, request string) (daemontest.Reply, net.Conn) {
	w.Helper()
	w.K.AllRead()
	c, err := w.Dial(who)
	if err != nil {
		w.Fatal(err)
	}
	go io.WriteString(c, request)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		c.Close()
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return daemontest.Reply{T: w.T, Status: resp.StatusCode, Header: resp.Header, Body: b}, c
}

// TestMalformedRequests: requests that are not HTTP, or too large, get net/http's own
// refusal, before a handler sees them.
func TestMalformedRequests(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"headers of 8 KiB": {"GET /v1/version HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"many headers":     {"GET /v1/version HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: a\r\n", 4<<10) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"a long path":      {"GET /" + strings.Repeat("a", 16<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"no HTTP":          {"hello\r\n\r\n", http.StatusBadRequest},
		"no host":          {"GET /v1/version HTTP/1.1\r\n\r\n", http.StatusBadRequest},
		"two lengths":      {"POST /v1/resync HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", http.StatusBadRequest},
		"control bytes":    {"GET /\x1b[2J HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			a, conn := w.raw("user", c.request)
			conn.Close()
			if a.Status != c.status || bytes.ContainsAny(a.Body, "\n\x1b") {
				t.Errorf("%d %q, want %d", a.Status, a.Body, c.status)
			}
		})
	}
	t.Run("headers of 7 KiB", func(t *testing.T) {
		a, conn := w.raw("user", "GET /v1/version HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", 7<<10)+"\r\n\r\n")
		conn.Close()
		daemontest.Into[api.Version](a, http.StatusOK)
	})
}

// TestSizeOfRequests: 64 KiB, and not a byte more.
func TestSizeOfRequests(t *testing.T) {
	w := newWorld(t)
	pad := func(n int) string { return `{` + strings.Repeat(" ", n-2) + `}` }
	daemontest.Into[api.Resync](w.Do("root", "POST", "/v1/resync", pad(64<<10)), http.StatusOK)
	w.Do("root", "POST", "/v1/resync", pad(64<<10+1)).Refused(api.CodeTooLarge)
}

// TestConnectionsAreLimited: in all, per uid, and per session.
func TestConnectionsAreLimited(t *testing.T) {
	if l := daemon.DefaultLimits; l.Conns != 2048 || l.MemberConns != 256 || l.UIDConns != 512 || l.Rate != 200 || l.Burst != 1024 || l.Send != 5*time.Second {
		t.Errorf("%+v", l)
	}
	for name, c := range map[string]struct {
		set      func(*daemon.Limits)
		who      string
		unbound  string // the caller that still gets in; "": none
		verdicts int
	}{
		"all":                        {func(l *daemon.Limits) { l.Conns = 3 }, "root", "", 3},
		"all but what is root's":     {func(l *daemon.Limits) { l.Conns = 32 }, "user", "root", 30},
		"all but what operators may": {func(l *daemon.Limits) { l.Conns = 32 }, "100", "user", 22},
		"a uid":                      {func(l *daemon.Limits) { l.UIDConns = 3 }, "user", "root", 3},
		"a uid's sessions":           {func(l *daemon.Limits) { l.UIDConns = 3 }, "100", "user", 3},
		"a uid outside of sessions":  {func(l *daemon.Limits) { l.UIDConns = 3 }, "user", "100", 3},
		"a session":                  {func(l *daemon.Limits) { l.MemberConns = 3 }, "100", "user", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *daemontest.Daemon) { c.set(&w.Host.Limits) })
			w.Session("user", 100, api.NewSession{})
			w.Until(func() bool { return w.Service.Access.Open() == 0 })
			var open []net.Conn
			for range c.verdicts {
				a, conn := w.raw(c.who, "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n")
				daemontest.Into[api.Version](a, http.StatusOK)
				open = append(open, conn)
			}
			a := w.Do(c.who, "GET", "/v1/version", nil)
			a.Refused(api.CodeTooMany)
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("%v", a.Header)
			}
			if c.unbound != "" {
				daemontest.Into[api.Version](w.Do(c.unbound, "GET", "/v1/version", nil), http.StatusOK)
			}
			for _, conn := range open {
				conn.Close()
			}
			w.Until(func() bool { return w.Service.Access.Open() == 0 })
			daemontest.Into[api.Version](w.Do(c.who, "GET", "/v1/version", nil), http.StatusOK)
			if w.Service.Access.RefusedSoFar()["limit"] == 0 {
				t.Error("it is not counted")
			}
		})
	}
}

// TestOptions: a request about the whole server is about no route.
func TestOptions(t *testing.T) {
	w := newWorld(t)
	a, conn := w.raw("user", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	defer conn.Close()
	a.Refused(api.CodeNotFound)
}

// TestIdleConnections: connections over the limit are refused, and keep no descriptor;
// a caller that opened them does not block other callers.
func TestIdleConnections(t *testing.T) {
	w := newWorld(t, func(w *daemontest.Daemon) { w.Host.Limits.Conns, w.Host.Limits.UIDConns = 64, 16 })
	sockets := func() (n int) { // the daemon reads files meanwhile
		for _, to := range daemontest.Descriptors() {
			if strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	before := sockets()
	const each = 100
	var idle []net.Conn
	for range each {
		for _, who := range []string{"user", "else", "reader"} {
			c, err := w.Dial(who)
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
	}
	w.Until(func() bool { return w.Service.Access.RefusedSoFar()["limit"] == 3*(each-16) })
	if n := w.Service.Access.Open(); n != 3*16 {
		t.Errorf("%d connections are open, want 16 of each uid", n)
	}
	// Our end, and the daemon's end of those that it keeps.
	w.Until(func() bool { return sockets()-before == 3*each+3*16 })
	daemontest.Into[api.Version](w.Do("root", "GET", "/v1/version", nil), http.StatusOK)
	for _, c := range idle {
		c.Close()
	}
	w.Until(func() bool { return w.Service.Access.Open() == 0 })
	daemontest.Into[api.Version](w.Do("user", "GET", "/v1/version", nil), http.StatusOK)
}

// TestStoppingAndStarting: what a client gets from a daemon that stops or has not
// started.
func TestStoppingDaemon(t *testing.T) {
	w := newWorld(t)
	w.Service.EndRegistry()
	w.Do("root", "GET", "/v1/sessions", nil).Refused(api.CodeStopping)
	if e := refusedDocument(w.Do("root", "GET", "/v1/watch", nil)); e.Exit != api.ExitUnreachable {
		t.Errorf("%+v", e)
	}
	_ = w.Stop()
}

func refusedDocument(a daemontest.Reply) *api.Error {
	a.Helper()
	var doc api.ErrorDocument
	if err := json.Unmarshal(a.Body, &doc); err != nil || doc.Error == nil {
		a.Fatalf("status %d is no refusal: %s", a.Status, fmt.Sprintf("%.200s", a.Body))
	}
	return doc.Error
}

// TestSessionsAreLimited: an agent that opens one session after the other takes only
// its own slots, and so does a user.
func TestSessionsAreLimited(t *testing.T) {
	// opens has the kernel open n sessions, of children of a process.
	opens := func(w *world, n int, parent, pid, uid uint32) {
		for range n {
			if w.K.Proc(parent).Session != 0 {
				w.K.Fork(parent, pid, "lngtest-x")
			} else {
				w.K.Add(pid, parent, "lngtest-x")
			}
			if _, err := w.K.Create(tracer.SessionSpec{Root: w.K.Proc(pid).Identity, UID: uid}); err != nil {
				t.Fatal(err)
			}
			pid++
		}
		if _, err := w.Service.Registry.Resync(registry.CauseRequest); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(w *world, who string, pid uint32) daemontest.Reply {
		w.Add(pid, w.Caller(who), w.K.Proc(w.Caller(who)).UID, "lngtest-root")
		return w.Do(who, "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: int(pid)}})
	}
	t.Run("nested", func(t *testing.T) {
		for _, who := range []string{"user", "root"} {
			w := newWorld(t)
			s := w.Session(who, 100, api.NewSession{})
			other := w.Session(who, 200, api.NewSession{})
			uid := w.K.Proc(100).UID
			opens(w, registry.MaxNested-2, 100, 1<<20, uid)
			add := func(parent, pid uint32) {
				w.K.Fork(parent, pid, "lngtest-x")
				w.Proc(pid, parent, uid, "lngtest-x")
			}
			for pid := uint32(101); pid < 106; pid++ {
				add(100, pid)
			}
			request := func(who string, pid uint32) daemontest.Reply {
				return w.Do(who, "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: int(pid)}})
			}
			daemontest.Into[api.Session](request("100", 101), http.StatusCreated)
			daemontest.Into[api.Session](request("100", 102), http.StatusCreated)
			request("100", 103).Refused(api.CodeTooMany)
			add(101, 110)
			a := request("101", 110) // a deeper session does not avoid it
			if e := a.Refused(api.CodeTooMany); !strings.Contains(e.Message, s.ID) || a.Header.Get("Retry-After") == "" {
				t.Errorf("%+v %v", e, a.Header)
			}
			add(200, 201)
			daemontest.Into[api.Session](request("200", 201), http.StatusCreated)
			if other.Parent != "" {
				t.Errorf("%+v", other)
			}
		}
	})
	t.Run("a uid", func(t *testing.T) {
		w := newWorld(t)
		opens(w, registry.MaxUIDSessions-1, daemontest.Shell, 1<<20, 1000)
		daemontest.Into[api.Session](ask(w, "user", 100), http.StatusCreated)
		ask(w, "user", 101).Refused(api.CodeTooMany)
		daemontest.Into[api.Session](ask(w, "else", 102), http.StatusCreated)
		opens(w, registry.MaxUIDSessions, daemontest.Shell, 1<<21, 0)
		daemontest.Into[api.Session](ask(w, "root", 103), http.StatusCreated)
	})
}
