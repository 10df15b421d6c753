//go:build linux

package cgroup

import (
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// ooms is how often a group had no memory left, and a process in it was to die.
type ooms struct {
	group        string
	n            uint64
	at, from, to uint64 // boottime of the last look, and of the looks between which n last rose
}

// late is how long after such an event, in ns, a process is killed for it.
const late = 1e9

// ranOut is that number, without events of the groups in it.
func ranOut(mount, group string) uint64 { return number(mount, group, "memory.events.local", "oom") }

func (g *Groups) killedFor(o *ooms, killed uint64) bool {
	now := g.o.Clock.Boottime()
	if n := ranOut(g.mount, o.group); n > o.n {
		o.n, o.from, o.to = n, o.at, now
	}
	o.at = now
	return killed > o.from && killed <= o.to+late
}

// exited notes whose limit the OOM killer enforced. The kernel does not say it: the group that had no memory left counts
// that, before its victim is chosen.
func (g *Groups) exited(v registry.View, s *registry.Session, ev *tracer.Event) {
	_, out := g.outside[ev.Process]
	delete(g.outside, ev.Process)
	delete(g.returns, ev.Process)
	if ev.Signal == nil || ev.Signal.Sender != lineage.ByOOM {
		return
	}
	x := *ev.Signal
	x.OOM = &lineage.OOM{Had: ev.MaxRSS}
	ev.Signal = &x
	if !out {
		g.whose(v, s.ID(), &x)
	}
}

func (g *Groups) whose(v registry.View, id tracer.SessionID, x *lineage.Signal) {
	var outermost *group
	for id := range v.Chain(id) {
		own := g.of[id]
		if own == nil || len(own.ooms) == 0 {
			continue
		}
		if outermost = own; g.killedFor(own.ooms[len(own.ooms)-1], x.Time) {
			x.OOM.Of, x.OOM.Session, x.OOM.Name = "session", id, v.Session(id).Info().Name
			x.OOM.Limit = number(g.mount, own.path, "memory.max", "")
			x.OOM.Peak = number(g.mount, own.path, "memory.peak", "") // Linux 5.19
			return
		}
	}
	if outermost == nil || x.Time < outermost.watched {
		return // nothing is known
	}
	x.OOM.Of = "host"
	for _, o := range outermost.ooms[:len(outermost.ooms)-1] {
		if g.killedFor(o, x.Time) {
			x.OOM.Of = "outer"
		}
	}
}
