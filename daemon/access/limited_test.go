//go:build linux

package access_test

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

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
			w := daemontest.New(t, func(w *daemontest.Daemon) { c.set(&w.Host.Limits) })
			w.Session("user", 100, api.NewSession{})
			w.Until(func() bool { return w.Service.Access.Open() == 0 })
			var open []net.Conn
			for range c.verdicts {
				a, conn := w.Raw(c.who, "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n")
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

// TestIdleConnections: connections over the limit are refused, and keep no descriptor;
// a caller that opened them does not block other callers.
func TestIdleConnections(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.Conns, w.Host.Limits.UIDConns = 64, 16 })
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
			require.NoError(t, err)
			idle = append(idle, c)
		}
	}
	w.Until(func() bool { return w.Service.Access.RefusedSoFar()["limit"] == 3*(each-16) })
	if n := w.Service.Access.Open(); n != 3*16 {
		t.Errorf("%d connections are open, want 16 of each uid", n)
	}
	// Our end, and the daemon's end of those that it keeps.
	w.Until(func() bool { return sockets()-before == 3*each+3*16 })
	daemontest.Get[api.Version](w, "root", "/v1/version")
	for _, c := range idle {
		c.Close()
	}
	w.Until(func() bool { return w.Service.Access.Open() == 0 })
	daemontest.Get[api.Version](w, "user", "/v1/version")
}

// TestRequestsAreLimited: those of a session, and of a uid; root's are not.
func TestRequestsAreLimited(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.Rate, w.Host.Limits.Burst = 3, 3 })
	w.Session("user", 100, api.NewSession{})
	for what, who := range map[string]string{"a session": "100", "a uid": "reader"} {
		t.Run("requests of "+what, func(t *testing.T) {
			for range 3 {
				daemontest.Get[api.Status](w, who, "/v1/status")
			}
			w.Do(who, "GET", "/v1/status", nil).Refused(api.CodeTooMany)
			w.K.Advance(time.Second)
			daemontest.Get[api.Status](w, who, "/v1/status")
		})
	}
	for range 9 {
		daemontest.Get[api.Status](w, "root", "/v1/status")
	}
}
