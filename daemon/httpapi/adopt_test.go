//go:build linux

package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestAdoptThenKeep: a user whose processes run in root's session cannot take them out
// of it, neither directly nor through a session of the user's own in between.
func TestAdoptThenKeep(t *testing.T) {
	w := daemontest.New(t)
	w.Add(150, daemontest.Shell, 0, "lngtest-run") // lineage run --user, by root
	outer := w.Session("150", 100, api.NewSession{Name: "roots"})
	w.Fork(100, 101, 1000, "lngtest-agent")
	w.Fork(101, 102, 1000, "lngtest-child")
	if e := w.Adopt("user", 101).Refused(api.CodeDenied); strings.Contains(e.Message, outer.ID) || !strings.Contains(e.Message, "uid 0") {
		t.Errorf("%+v", e)
	}
	w.In(map[uint32]string{101: outer.ID})
	// A session of the user's own inside of root's: the user may end it, and nothing more.
	inner := daemontest.Into[api.Session](w.Adopt("root", 101), http.StatusCreated)
	if inner.UID != 1000 || inner.Parent != outer.ID {
		t.Fatalf("%+v", inner)
	}
	if e := w.Keep("user", 102).Refused(api.CodeDenied); strings.Contains(e.Message, outer.ID) || !strings.Contains(e.Message, "uid 0") {
		t.Errorf("%+v", e)
	}
	w.Adopt("user", 102).Refused(api.CodeDenied)
	daemontest.Into[api.Session](w.Keep("root", 102), http.StatusCreated)
	daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/"+inner.ID+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
}

// A user adopts a shell with a child that runs as another user: that one is named and left out, with its descendants,
// and outlives the session.
func TestAdoptLeavesOut(t *testing.T) {
	w := daemontest.New(t)
	adopt := func(who string) *api.Session {
		return daemontest.Into[api.Session](w.Do(who, "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 400}, GraceMS: daemontest.MS(0)}),
			http.StatusCreated)
	}
	w.Add(400, daemontest.Shell, 1000, "lngtest-shell")
	w.Add(401, 400, 0, "lngtest-rootd")
	w.Add(402, 401, 1000, "lngtest-below")
	w.Add(403, 400, 1000, "lngtest-own")
	s := adopt("user")
	if len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "pid 401 (lngtest-rootd) and its descendants are not adopted: it runs as uid 0") {
		t.Errorf("%q", s.Warnings)
	}
	if w.K.Proc(401).Session != 0 || w.K.Proc(402).Session != 0 || w.K.Proc(403).Session.String() != s.ID {
		t.Errorf("401 %v 402 %v 403 %v", w.K.Proc(401).Session, w.K.Proc(402).Session, w.K.Proc(403).Session)
	}
	if r := w.End("user", s.ID); r.Verdict != "clean" || len(r.Processes) != 2 {
		t.Errorf("%+v", r)
	}
	w.Survive([]uint32{400, 401, 402, 403}, 401, 402)
	// Many are not all named, and root adopts them.
	w.Add(500, daemontest.Shell, 1000, "lngtest-shell")
	for pid := uint32(501); pid < 521; pid++ {
		w.Add(pid, 500, 1001, "lngtest-other")
	}
	s = daemontest.Into[api.Session](w.Adopt("user", 500), http.StatusCreated)
	if n := len(s.Warnings); n != 17 || s.Warnings[16] != "4 more processes of other users are not adopted" {
		t.Errorf("%q", s.Warnings)
	}
	w.Add(600, daemontest.Shell, 1000, "lngtest-shell")
	w.Add(601, 600, 0, "lngtest-rootd")
	w.K.Edit(601, func(p *kerneltest.Proc) { p.RSS = 8 << 20 })
	s = daemontest.Into[api.Session](w.Adopt("root", 600), http.StatusCreated)
	if len(s.Warnings) != 0 || w.K.Proc(601).Session.String() != s.ID || s.RSSBytes <= 8<<20 { // it is measured at once
		t.Errorf("%q, 601 %v, %d bytes", s.Warnings, w.K.Proc(601).Session, s.RSSBytes)
	}
}

// TestGuardedRoot: no session is opened over an ancestor of the daemon. No error says that nothing
// was sent where nothing ever is.
func TestGuardedRoot(t *testing.T) {
	w := daemontest.New(t)
	w.Add(150, daemontest.Root, 0, "lngtest-login")
	w.Under(150)
	for _, adopt := range []bool{false, true} {
		e := w.Do("root", "POST", "/v1/sessions", api.NewSession{Adopt: adopt, Root: api.Ref{PID: 150}}).Refused(api.CodeGuarded)
		require.Equal(t, e.Message, "pid 150 is an ancestor of the daemon")
	}
	const other = "pid 150 is not the process you named (150@5)"
	require.Equal(t, w.Do("root", "GET", "/v1/why?ref=150@5", nil).Refused(api.CodeIdentity).Message, other)
	for verb, body := range map[string]any{"kill": api.KillRequest{Signal: "TERM"}, "end": api.EndRequest{}} {
		require.Equal(t, w.Do("root", "POST", "/v1/processes/150@5/"+verb, body).Refused(api.CodeIdentity).Message, other+"; nothing was sent")
	}
	e := w.Do("root", "POST", "/v1/keep", api.KeepRequest{Refs: []api.Ref{w.RefOf(150)}, Reason: "test", Until: time.Now().Add(time.Hour)}).Refused(api.CodeNotFound)
	require.Equal(t, e.Message, "pid 150 is in no session, so lineage will not end it")
}
