//go:build linux

package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestSizeOfHeaders: 7 KiB pass. 16 KiB get net/http's own refusal, before a handler sees them.
func TestSizeOfHeaders(t *testing.T) {
	w := daemontest.New(t)
	for kib, want := range map[int]int{7: http.StatusOK, 16: http.StatusRequestHeaderFieldsTooLarge} {
		a, conn := w.Raw("user", "GET /v1/version HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", kib<<10)+"\r\n\r\n")
		conn.Close()
		require.Equal(t, a.Status, want)
	}
}

// TestSizeOfRequests: 64 KiB, and not a byte more.
func TestSizeOfRequests(t *testing.T) {
	w := daemontest.New(t)
	pad := func(n int) string { return `{` + strings.Repeat(" ", n-2) + `}` }
	daemontest.Into[api.Policy](w.Do("root", "POST", "/v1/policy/resume", pad(64<<10)), http.StatusOK)
	w.Do("root", "POST", "/v1/policy/resume", pad(64<<10+1)).Refused(api.CodeTooLarge)
}

// TestOptions: a request about the whole server is about no route.
func TestOptions(t *testing.T) {
	w := daemontest.New(t)
	a, conn := w.Raw("user", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	defer conn.Close()
	a.Refused(api.CodeNotFound)
}

// TestStoppingAndStarting: what a client gets from a daemon that stops or has not
// started.
func TestStoppingDaemon(t *testing.T) {
	w := daemontest.New(t)
	w.Service.EndRegistry()
	w.Do("root", "GET", "/v1/sessions", nil).Refused(api.CodeStopping)
	if e := w.Do("root", "GET", "/v1/watch", nil).Refused(api.CodeStopping); e.Exit != api.ExitUnreachable {
		t.Errorf("%+v", e)
	}
	_ = w.Stop()
}

// TestSessionsAreLimited: an agent that opens one session after the other takes only
// its own slots, and so does a user.
func TestSessionsAreLimited(t *testing.T) {
	// opens has the kernel open n sessions, of children of a process.
	opens := func(w *daemontest.Daemon, n int, parent, pid, uid uint32) {
		for range n {
			if w.K.Proc(parent).Session != 0 {
				w.K.Fork(parent, pid, "lngtest-x")
			} else {
				w.K.Add(pid, parent, "lngtest-x")
			}
			_, err := w.K.Create(tracer.SessionSpec{Root: w.K.Proc(pid).Identity, UID: uid})
			require.NoError(t, err)
			pid++
		}
		w.Resync(registry.CauseMember)
	}
	ask := func(w *daemontest.Daemon, who string, pid uint32) daemontest.Reply {
		w.Add(pid, w.Caller(who), w.K.Proc(w.Caller(who)).UID, "lngtest-root")
		return w.Do(who, "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: int(pid)}})
	}
	t.Run("nested", func(t *testing.T) {
		for _, who := range []string{"user", "root"} {
			w := daemontest.New(t)
			s := w.Session(who, 100, api.NewSession{})
			other := w.Session(who, 200, api.NewSession{})
			uid := w.K.Proc(100).UID
			opens(w, registry.MaxNested-2, 100, 1<<20, uid)
			add := func(parent, pid uint32) {
				w.Fork(parent, pid, uid, "lngtest-x")
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
		w := daemontest.New(t)
		opens(w, registry.MaxUIDSessions-1, daemontest.Shell, 1<<20, 1000)
		daemontest.Into[api.Session](ask(w, "user", 100), http.StatusCreated)
		ask(w, "user", 101).Refused(api.CodeTooMany)
		daemontest.Into[api.Session](ask(w, "else", 102), http.StatusCreated)
		opens(w, registry.MaxUIDSessions, daemontest.Shell, 1<<21, 0)
		daemontest.Into[api.Session](ask(w, "root", 103), http.StatusCreated)
	})
}

// TestKeeps: the kept sessions of a user are limited; those of another user are not affected.
func TestKeeps(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{OnRootExit: "report"})
	w.Session("else", 200, api.NewSession{OnRootExit: "report"})
	for n := range uint32(257) {
		w.K.Fork(100, 1000+n, "lngtest-kept")
	}
	w.K.Fork(200, 201, "lngtest-kept")
	for n := range uint32(256) {
		daemontest.Into[api.Session](w.Keep("user", 1000+n), http.StatusCreated)
	}
	w.Keep("user", 1256).Refused(api.CodeTooMany)
	daemontest.Into[api.Session](w.Keep("else", 201), http.StatusCreated)
}
