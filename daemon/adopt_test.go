//go:build linux

package daemon

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// TestAdoptThenKeep: a user whose processes run in root's session cannot take them out
// of it, neither directly nor through a session of the user's own in between.
func TestAdoptThenKeep(t *testing.T) {
	w := newWorld(t)
	w.host(150, shell, 0, "lngtest-run") // lineage run --user, by root
	outer := w.session("150", 100, api.NewSession{Name: "roots"})
	w.k.Fork(100, 101, "lngtest-agent")
	w.k.Fork(101, 102, "lngtest-child")
	w.proc(101, 100, 1000, "lngtest-agent")
	w.proc(102, 101, 1000, "lngtest-child")
	adopt := func(who string, pid int) answered {
		return w.do(who, "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: pid}})
	}
	keep := func(who string, pid uint32) answered {
		return w.do(who, "POST", "/v1/keep", api.KeepRequest{
			Refs:   []api.Ref{{PID: int(pid), StartNS: api.U64(w.k.Proc(pid).Start)}},
			Reason: "mine", Until: time.Now().Add(time.Hour),
		})
	}
	if e := adopt("user", 101).refused(api.CodeDenied); !strings.Contains(e.Message, "session "+outer.ID) {
		t.Errorf("%+v", e)
	}
	if in := w.k.Proc(101).Session.String(); in != outer.ID {
		t.Errorf("101 is in %s", in)
	}
	// A session of the user's own inside of root's: the user may end it, and nothing more.
	inner := into[api.Session](adopt("root", 101), http.StatusCreated)
	if inner.UID != 1000 || inner.Parent != outer.ID {
		t.Fatalf("%+v", inner)
	}
	if e := keep("user", 102).refused(api.CodeDenied); !strings.Contains(e.Message, "session "+outer.ID) {
		t.Errorf("%+v", e)
	}
	adopt("user", 102).refused(api.CodeDenied)
	into[api.Session](keep("root", 102), http.StatusCreated)
	into[api.Report](w.do("user", "POST", "/v1/sessions/"+inner.ID+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
}

// A user adopts a shell with a child that runs as another user: that one is named and left out, with its descendants,
// and outlives the session.
func TestAdoptLeavesOut(t *testing.T) {
	w := newWorld(t)
	adopt := func(who string) *api.Session {
		return into[api.Session](w.do(who, "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 400}, GraceMS: ms(0)}), http.StatusCreated)
	}
	w.host(400, shell, 1000, "lngtest-shell")
	w.host(401, 400, 0, "lngtest-rootd")
	w.host(402, 401, 1000, "lngtest-below")
	w.host(403, 400, 1000, "lngtest-own")
	s := adopt("user")
	if len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "pid 401 (lngtest-rootd) and its descendants are not adopted: it runs as uid 0") {
		t.Errorf("%q", s.Warnings)
	}
	if w.k.Proc(401).Session != 0 || w.k.Proc(402).Session != 0 || w.k.Proc(403).Session.String() != s.ID {
		t.Errorf("401 %v 402 %v 403 %v", w.k.Proc(401).Session, w.k.Proc(402).Session, w.k.Proc(403).Session)
	}
	into[api.Report](w.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
	if r := w.receipt(s.ID); r.Verdict != "clean" || len(r.Processes) != 2 {
		t.Errorf("%+v", r)
	}
	for pid, dead := range map[uint32]bool{400: true, 401: false, 402: false, 403: true} {
		if p := w.k.Proc(pid); (p == nil || p.Dead) != dead {
			t.Errorf("%d: %+v", pid, p)
		}
	}
	// Many are not all named, and root adopts them.
	w.host(500, shell, 1000, "lngtest-shell")
	for pid := uint32(501); pid < 521; pid++ {
		w.host(pid, 500, 1001, "lngtest-other")
	}
	s = into[api.Session](w.do("user", "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 500}}), http.StatusCreated)
	if n := len(s.Warnings); n != 17 || s.Warnings[16] != "4 more processes of other users are not adopted" {
		t.Errorf("%q", s.Warnings)
	}
	w.host(600, shell, 1000, "lngtest-shell")
	w.host(601, 600, 0, "lngtest-rootd")
	s = into[api.Session](w.do("root", "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 600}}), http.StatusCreated)
	if len(s.Warnings) != 0 || w.k.Proc(601).Session.String() != s.ID {
		t.Errorf("%q, 601 %v", s.Warnings, w.k.Proc(601).Session)
	}
}
