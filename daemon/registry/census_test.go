//go:build linux

package registry_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestUnheardDeaths: a death that ends a session, and that only an event would report, is
// found by a look too.
func TestUnheardDeaths(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spec   api.NewSession
		heard  bool // the root's death before
		dies   []uint32
		reason string
	}{
		{"root", api.NewSession{}, false, []uint32{100}, "root_exit"},
		{"owner", api.NewSession{}, false, []uint32{daemontest.Callers["user"]}, "owner_exit"},
		{"everybody", api.NewSession{}, false, []uint32{101, 100}, "root_exit"},
		{"last member", api.NewSession{OnRootExit: "report"}, true, []uint32{101}, "root_exit"},
		{"last member, in its grace", api.NewSession{GraceMS: daemontest.MS(60_000)}, true, []uint32{101}, "root_exit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := daemontest.New(t)
			w.K.Feature.Level = 2 // no hook acts on a death
			s := w.Session("user", 100, tt.spec)
			w.K.Fork(100, 101, "lngtest-a")
			w.K.Edit(101, func(p *kerneltest.Proc) { p.IgnoreTerm = tt.heard })
			if tt.heard {
				w.K.Exit(100, 0)
				w.Applied()
			}
			unheard(w, func() {
				for _, pid := range tt.dies {
					w.K.Exit(pid, 0)
				}
			})
			w.Resync(registry.CauseNone)
			if r := w.Receipt(s.ID); r.EndReason != tt.reason || r.Verdict != "clean" || r.Left != 0 {
				t.Errorf("%+v", r)
			}
			if p := w.K.Proc(101); p != nil && !p.Dead {
				t.Error("its member lives")
			}
		})
	}
}

// TestUnheardRootOfAnEnd: the kernel began the end, and no event reported the cause. Members
// that die in it are leftovers.
func TestUnheardRootOfAnEnd(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(5000)})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Edit(101, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	unheard(w, func() { w.K.Exit(100, 0) })
	w.Resync(registry.CauseNone)
	w.K.Exit(101, 0)
	if r := w.Receipt(s.ID); r.EndReason != "root_exit" || len(r.Processes) != 1 || !r.Processes[0].Leftover {
		t.Errorf("%+v", r)
	}
}

// TestUnheardNestedRoot: the same for a session inside another one.
func TestUnheardNestedRoot(t *testing.T) {
	w := daemontest.New(t)
	w.K.Feature.Level = 2
	around := w.Session("user", 100, api.NewSession{})
	w.K.Fork(100, 101, "lngtest-a")
	id, err := w.K.Create(tracer.SessionSpec{Root: tracer.Identity{PID: 101}})
	require.NoError(t, err)
	w.K.Fork(101, 102, "lngtest-b")
	unheard(w, func() { w.K.Exit(101, 0) })
	w.Resync(registry.CauseNone)
	if r := w.Receipt(id.String()); r.EndReason != "root_exit" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
	if s, err := w.K.Session(w.ID(around.ID)); err != nil || s.State != tracer.StateActive || s.Live != 1 {
		t.Errorf("around it: %+v, %v", s, err)
	}
}

// TestMembersOfNobody: a member whose session does not exist is moved to the one around it,
// and the daemon reports that.
func TestMembersOfNobody(t *testing.T) {
	w := daemontest.New(t)
	around := w.Session("user", 100, api.NewSession{})
	w.K.Fork(100, 101, "lngtest-a")
	nested, err := w.K.Create(tracer.SessionSpec{Root: tracer.Identity{PID: 101}})
	require.NoError(t, err)
	w.K.LoseRecord(nested)
	w.Resync(registry.CauseNone)
	w.In(map[uint32]string{101: around.ID})
	if !w.Degraded("without a session record") {
		t.Errorf("degraded %q", w.Status().Degraded)
	}
}

// TestEndedWithoutDaemon: a session whose members all died while no daemon ran ended then, not
// when the next daemon found it empty.
func TestEndedWithoutDaemon(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	w.Halt()
	w.K.Advance(time.Second)
	w.K.Exit(100, 0)
	died := w.K.Now()
	w.K.Advance(3 * time.Minute)
	w.Start()
	if r := w.Receipt(s.ID); r.EndReason != "root_exit" || r.DurationMS > 1000 {
		t.Errorf("%s after %v ms", r.EndReason, r.DurationMS)
	}
	doc := daemontest.Get[api.Session](w, "root", "/v1/sessions/"+s.ID)
	if at := w.Host.Clock.Wall(uint64(died)); doc.Ended == nil || doc.Ended.Sub(*at).Abs() > time.Second {
		t.Errorf("it ended at %v, not %v", doc.Ended, at)
	}
}
