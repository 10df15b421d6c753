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
