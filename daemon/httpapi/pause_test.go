//go:build linux

package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
)

func TestPause(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "x", GraceMS: daemontest.MS(60_000)})
	w.Fork(100, 101, 1000, "lngtest-a")
	inner := daemontest.Into[api.Session](w.Do("100", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 101}}), http.StatusCreated)
	ask := func(who, id, verb string) daemontest.Reply {
		return w.Do(who, "POST", "/v1/sessions/"+id+"/"+verb, nil)
	}
	stopped := func() (pids []uint32) {
		for _, pid := range []uint32{100, 101, 102} {
			if p := w.K.Proc(pid); p != nil && p.Stopped {
				pids = append(pids, pid)
			}
		}
		return pids
	}

	// A session around may pause one inside.
	if d := daemontest.Into[api.Session](ask("100", inner.ID, "pause"), http.StatusOK); d.Paused == nil || d.State != api.StateActive {
		t.Errorf("%+v", d)
	}
	if d := daemontest.Get[api.Session](w, "user", "/v1/sessions/x"); d.Paused != nil || !slices.Equal(stopped(), []uint32{101}) {
		t.Errorf("paused at %v, stopped %v", d.Paused, stopped())
	}
	daemontest.Into[api.Session](ask("user", s.ID, "pause"), http.StatusOK)
	daemontest.Into[api.Session](ask("user", inner.ID, "resume"), http.StatusOK)
	if d := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+inner.ID); d.Paused == nil || !slices.Equal(stopped(), []uint32{100, 101}) {
		t.Errorf("paused at %v, stopped %v", d.Paused, stopped())
	}
	if text := string(w.Do("root", "GET", "/metrics", nil).Body); !strings.Contains(text, `lineage_sessions{state="paused"} 2`) {
		t.Error("the metrics do not count them")
	}
	if d := daemontest.Into[api.Session](ask("user", "x", "resume"), http.StatusOK); d.Paused != nil || stopped() != nil {
		t.Errorf("%+v, stopped %v", d, stopped())
	}

	// What does not stop is named.
	w.K.Edit(101, func(p *kerneltest.Proc) { p.Stubborn = true })
	d := daemontest.Into[api.Session](ask("root", "x", "pause"), http.StatusOK)
	if len(d.Warnings) != 1 || !strings.HasPrefix(d.Warnings[0], "pid 101 (lngtest-a) has not stopped yet: ") {
		t.Errorf("%q", d.Warnings)
	}
	w.K.Edit(101, func(p *kerneltest.Proc) { p.Stubborn = false })
}

// TestPauseRestart: the next daemon knows of the pause, and looks after it.
func TestPauseRestart(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{Name: "x"})
	daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions/x/pause", nil), http.StatusOK)
	sigcont := func(p *kerneltest.Proc) { p.Stopped = false } // anybody may send it: its sender is named, and it is undone
	w.K.Edit(100, sigcont)
	w.Until(func() bool {
		c := daemontest.Get[api.Session](w, "user", "/v1/sessions/x").Continued
		return c != nil && c.By != nil && c.By.Process != nil && w.K.Proc(100).Stopped
	})
	w.Halt()
	w.K.Edit(100, sigcont)
	w.Start()
	if d := daemontest.Get[api.Session](w, "user", "/v1/sessions/x"); d.Paused == nil {
		t.Errorf("%+v", d)
	}
	w.Until(func() bool { return w.K.Proc(100).Stopped })
	daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions/x/resume", nil), http.StatusOK)
	if w.K.Proc(100).Stopped {
		t.Error("it is stopped")
	}
}
