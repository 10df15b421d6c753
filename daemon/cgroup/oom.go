//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// ooms is how often a group had no memory left, and a process in it was to die.
type ooms struct {
	n         uint64
	first, at uint64 // boottime of the first look, and of the last one
	from, to  uint64 // of the looks between which it last rose
}

// late is how long after such an event, in ns, a process is killed for it.
const late = 1e9

// number reads a number from a file of a group, or of a line of it: "max" and what is missing are none.
func (g *Moves) number(group, file, key string) (n uint64, ok bool) {
	b, err := os.ReadFile(filepath.Join(g.o.Mount, group, file))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if v, is := strings.CutPrefix(line, key); is {
			n, err = strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// read looks at a group's own events: those of the groups in it are not among them.
func (g *Moves) read(group string) *ooms {
	n, ok := g.number(group, "memory.events.local", "oom ")
	if !ok {
		return nil // it has no memory controller, or is gone
	}
	now, o := g.o.Clock.Boottime(), g.ooms[group]
	if o == nil {
		o = &ooms{n: n, first: now}
		g.ooms[group] = o
	} else if n > o.n {
		o.n, o.from, o.to = n, o.at, now
	}
	o.at = now
	return o
}

// exited notes whose limit the OOM killer enforced, when it has killed a member. The kernel does not say it: the group
// that had no memory left counts that, before its victim is chosen.
func (g *Moves) exited(v registry.View, s *registry.Session, ev *tracer.Event) {
	_, out := g.outside[ev.Process]
	delete(g.outside, ev.Process)
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

func (g *Moves) whose(v registry.View, id tracer.SessionID, x *lineage.Signal) {
	ran := func(group string) bool {
		o := g.read(group)
		return o != nil && x.Time > o.from && x.Time <= o.to+late
	}
	outermost := ""
	for id := range v.Chain(id) {
		group := g.of[id]
		if group == "" {
			continue
		}
		outermost = group
		if ran(group) {
			x.OOM.Of, x.OOM.Session, x.OOM.Name = "session", id, v.Session(id).Info().Name
			x.OOM.Limit, _ = g.number(group, "memory.max", "")
			x.OOM.Peak, _ = g.number(group, "memory.peak", "") // Linux 5.19
			return
		}
	}
	if o := g.ooms[outermost]; o == nil || x.Time < o.first {
		return // nothing is known
	}
	x.OOM.Of = "host"
	for len(outermost) > 1 {
		if outermost = filepath.Dir(outermost); ran(outermost) {
			x.OOM.Of = "outer"
		}
	}
}
