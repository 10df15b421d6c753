//go:build linux

package cgroup

import (
	"io/fs"
	"maps"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

type (
	// stray is a member outside of the innermost group around it.
	stray struct {
		session    tracer.SessionID
		cgroup, at uint64 // where it is, and since when that is known, boottime
	}
	spot struct {
		group  string
		cgroup uint64
	}
)

// maxKnown bounds the directories that are searched for a cgroup, and the answers that are remembered.
const maxKnown = 1024

// pathOf is the group of a session; "": none.
func (g *Groups) pathOf(id tracer.SessionID) string {
	if x := g.of[id]; x != nil {
		return x.path
	}
	return ""
}

// left is the innermost group around a member of a session, if that is outside of it; else nil.
func (g *Groups) left(v registry.View, id tracer.SessionID, cgroup uint64) *group {
	for id := range v.Chain(id) {
		if path := g.pathOf(id); path != "" {
			if g.holds(path, cgroup) {
				return nil
			}
			return g.of[id]
		}
	}
	return nil
}

// holds reports whether a cgroup is the group or below it. Without a group each one is held. One that was removed before
// the first question is not. The kernel never uses an id again.
func (g *Groups) holds(group string, cgroup uint64) (is bool) {
	at, n := spot{group, cgroup}, 0
	if is, known := g.inside[at]; known || group == "" {
		return is || !known
	}
	_ = filepath.WalkDir(filepath.Join(g.mount, group), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			is = inode(path) == cgroup
			n++
		}
		if is || n == maxKnown {
			return fs.SkipAll
		}
		return nil
	})
	if len(g.inside) >= maxKnown {
		clear(g.inside)
	}
	g.inside[at] = is
	return is
}

// inode is that of a file, which is a cgroup's id; 0: there is none.
func inode(path string) uint64 {
	var st unix.Stat_t
	_ = unix.Stat(path, &st) // then it is 0
	return st.Ino
}

// place notes where a member is, and reports whether that is outside.
func (g *Groups) place(v registry.View, id tracer.SessionID, p tracer.Identity, cgroup uint64) (out bool) {
	delete(g.outside, p)
	if out = g.left(v, id, cgroup) != nil; out {
		g.outside[p] = stray{id, cgroup, g.o.Clock.Boottime()}
		if g.returns[p] <= maxReturns {
			system.Offer(g.wake, struct{}{})
		}
	}
	for id := range v.Chain(id) {
		v.Changed(id)
	}
	return out
}

// forked: a child of a member that is outside is there, too.
func (g *Groups) forked(v registry.View, s *registry.Session, ev *tracer.Event) {
	if _, out := g.outside[ev.Creator]; out {
		g.place(v, s.ID(), ev.Process, ev.Cgroup)
	}
}

// moved completes what an event says.
func (g *Groups) moved(v registry.View, s *registry.Session, ev *tracer.Event) {
	if s == nil || ev.Type != tracer.EventMoved {
		return
	}
	m := *ev.Moved
	if m.Path == "" {
		m.Path = g.path(ev.Process.PID, m.Cgroup)
	}
	m.Outside = g.place(v, s.ID(), ev.Process, m.Cgroup)
	ev.Moved = &m
}

// path is that of a cgroup, if the process with that PID is in it.
func (g *Groups) path(pid uint32, cgroup uint64) string {
	path := g.o.Proc.Cgroup(pid)
	if path == "" || inode(filepath.Join(g.mount, path)) != cgroup {
		return ""
	}
	return path
}

// compare takes the members' cgroups from a look. It returns the moves of which no event has told.
func (g *Groups) compare(v registry.View, l *registry.Look) (untold []tracer.Event) {
	for i := range l.Seen {
		p := &l.Seen[i]
		x, known := g.outside[p.ID]
		if known && x.at < g.looked {
			g.place(v, p.Session, p.ID, p.Cgroup)
		} else if !known && !p.Dead && g.left(v, p.Session, p.Cgroup) != nil {
			untold = append(untold, tracer.Event{Type: tracer.EventMoved, Process: p.ID, Session: p.Session,
				Moved: &tracer.Moved{Cgroup: p.Cgroup}})
		}
	}
	dead := func(p tracer.Identity) bool { n, _ := v.Graph().Node(p); return n.State != lineage.Live }
	maps.DeleteFunc(g.outside, func(p tracer.Identity, _ stray) bool { return dead(p) })
	maps.DeleteFunc(g.returns, func(p tracer.Identity, _ int) bool { return dead(p) })
	return untold
}

// maxReturns is how often a process is moved back. After that it stays where it was put.
const maxReturns = 3

// moveBack returns processes to their cgroup where the policy asks for that, if they are still members.
func (g *Groups) moveBack() {
	back := make(map[*group][]tracer.Identity)
	g.o.Registry.Do(func(t registry.Tx) {
		for p, at := range g.outside {
			x := g.left(t.View, at.session, at.cgroup)
			if x == nil || g.returns[p] > maxReturns ||
				g.o.Returns == nil || !g.o.Returns(t.Session(x.id).Info()) {
				continue
			}
			if e, err := g.o.Kernel.Lookup(p.PID); err != nil || e.Identity != p || e.Session != at.session {
				continue
			}
			if g.returns[p]++; g.returns[p] <= maxReturns {
				back[x] = append(back[x], p)
				continue
			}
			g.o.Log.Warn().Str(system.KeySession, x.id.String()).Uint32(system.KeyPID, p.PID).
				Msg("a member leaves its session's cgroup each time, and stays outside")
		}
	})
	for x, all := range back {
		err := g.maker.Move(x.path, all...)
		system.Failure(g.o.Log, err).Str(system.KeySession, x.id.String()).Msg("members not moved back")
		g.o.Registry.Do(func(t registry.Tx) {
			for _, p := range all {
				in := inode(filepath.Join(g.mount, g.o.Proc.Cgroup(p.PID)))
				if at, out := g.outside[p]; out && g.holds(x.path, in) { // else a look has it tried again
					x.moved = true
					g.place(t.View, at.session, p, in)
				}
			}
		})
	}
}

// tell reports such moves, without who did it. Who is not there any more was told of meanwhile.
func (g *Groups) tell(untold []tracer.Event) {
	for _, ev := range untold {
		if g.path(ev.Process.PID, ev.Moved.Cgroup) == "" {
			continue
		}
		g.o.Registry.Do(func(t registry.Tx) {
			if _, told := g.outside[ev.Process]; !told {
				ev.Time = g.o.Clock.Boottime()
				t.Apply([]tracer.Event{ev})
			}
		})
	}
}
