//go:build linux

package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// MovesOptions are those of NewMoves.
type MovesOptions struct {
	registry.Ground
	Maker Maker
	Mount string // where version 2 is mounted
	// Returns reports whether the members that leave the cgroup of a session are put back.
	Returns func(registry.View, tracer.SessionID) bool
}

// Moves knows which members of sessions are outside of their cgroups, who took them there, and which limit the OOM
// killer enforced. Its fields are the registry's goroutine's, as are methods with a View.
type Moves struct {
	o       MovesOptions
	of      map[tracer.SessionID]string
	outside map[tracer.Identity]stray // members that are not in the innermost group around them
	looked  uint64                    // boottime at which the last look began
	inside  map[spot]bool             // ids are not used again
	ooms    map[string]*ooms
	back    chan returned
}

type (
	stray struct {
		session    tracer.SessionID
		cgroup, at uint64 // where it is, and since when that is known, boottime
	}
	spot struct {
		group  string
		cgroup uint64
	}
	returned struct {
		tracer.Identity
		group string
	}
)

const (
	maxKnown = 1024 // cgroups that are remembered, and directories of a group that are searched
	maxBack  = 64   // members that are to be put back; a look finds the others again
)

// NewMoves knows no cgroup.
func NewMoves(o MovesOptions) *Moves {
	return &Moves{o: o, of: map[tracer.SessionID]string{}, outside: map[tracer.Identity]stray{},
		inside: map[spot]bool{}, ooms: map[string]*ooms{}, back: make(chan returned, maxBack)}
}

// Hooks are those that find who leaves.
func (g *Moves) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Moved: g.moved,
		Forked: func(v registry.View, s *registry.Session, ev *tracer.Event) {
			if _, is := g.outside[ev.Creator]; is {
				g.place(v, s.ID(), ev.Process, ev.Cgroup)
			}
		},
		Exited: g.exited,
		Walking: func(registry.View) registry.Want {
			g.looked = g.o.Clock.Boottime()
			return registry.WantNone
		},
		Sampled: g.sampled,
		Forgotten: func(_ registry.View, s *registry.Session) {
			delete(g.ooms, g.of[s.ID()])
			delete(g.of, s.ID())
		},
	}
}

// Watch begins when the members of a session have been moved into its group, or a daemon begins that finds them there.
func (g *Moves) Watch(id tracer.SessionID, group string) error {
	g.of[id] = group
	for at := group; ; at = filepath.Dir(at) {
		if g.read(at); len(at) <= 1 {
			return g.o.Kernel.WatchMoves(id)
		}
	}
}

// Unlimited is how many members, nested sessions included, are outside of the session's group.
func (g *Moves) Unlimited(v registry.View, id tracer.SessionID) (n int) {
	for _, x := range g.outside {
		if v.Within(x.session, id) && !g.holds(g.of[id], x.cgroup) {
			n++
		}
	}
	return n
}

// around is the innermost session with a group around a member of this one; "": none has.
func (g *Moves) around(v registry.View, id tracer.SessionID) (tracer.SessionID, string) {
	for id := range v.Chain(id) {
		if group := g.of[id]; group != "" {
			return id, group
		}
	}
	return 0, ""
}

// holds reports whether a cgroup is the group, or below it, or the session has none. One that is gone, and has not
// been asked for, is not.
func (g *Moves) holds(group string, cgroup uint64) bool {
	is, known := g.inside[spot{group, cgroup}]
	if known || group == "" {
		return is || !known
	}
	n := 0
	_ = filepath.WalkDir(filepath.Join(g.o.Mount, group), func(path string, d fs.DirEntry, err error) error {
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
	g.inside[spot{group, cgroup}] = is
	return is
}

// inode is that of a file, which is a cgroup's id; 0: there is none.
func inode(path string) uint64 {
	var st unix.Stat_t
	_ = unix.Stat(path, &st) // then it is 0
	return st.Ino
}

// place notes where a member is, and reports whether that is outside.
func (g *Moves) place(v registry.View, id tracer.SessionID, p tracer.Identity, cgroup uint64) (out bool) {
	around, group := g.around(v, id)
	delete(g.outside, p)
	if out = !g.holds(group, cgroup); out {
		g.outside[p] = stray{id, cgroup, g.o.Clock.Boottime()}
		if g.o.Returns(v, around) {
			system.Offer(g.back, returned{p, group})
		}
	}
	for id := range v.Chain(id) {
		v.Changed(id)
	}
	return out
}

func (g *Moves) moved(v registry.View, s *registry.Session, ev *tracer.Event) {
	m := *ev.Moved
	if m.Path == "" {
		m.Path = g.path(ev.Process.PID, m.Cgroup)
	}
	m.Outside = g.place(v, s.ID(), ev.Process, m.Cgroup)
	ev.Moved = &m
}

// path is that of a cgroup, if the process with that PID is in it.
func (g *Moves) path(pid uint32, cgroup uint64) string {
	path := g.o.Proc.Cgroup(pid)
	if path == "" || inode(filepath.Join(g.o.Mount, path)) != cgroup {
		return ""
	}
	return path
}

// sampled takes the members' cgroups from a look. One that was outside, and of which no event has told, is reported
// without who moved it.
func (g *Moves) sampled(v registry.View, l *registry.Look) (after func()) {
	var unseen []tracer.Event
	for i := range l.Seen {
		p := &l.Seen[i]
		x, known := g.outside[p.ID]
		_, group := g.around(v, p.Session)
		if known && x.at < g.looked {
			g.place(v, p.Session, p.ID, p.Cgroup)
		} else if !known && !p.Dead && !g.holds(group, p.Cgroup) {
			unseen = append(unseen, tracer.Event{Type: tracer.EventMoved, Process: p.ID, Session: p.Session,
				Moved: &tracer.Moved{Cgroup: p.Cgroup}})
		}
	}
	maps.DeleteFunc(g.outside, func(p tracer.Identity, _ stray) bool {
		n, _ := v.Graph().Node(p)
		return n.State != lineage.Live
	})
	return func() {
		for _, ev := range unseen {
			if g.path(ev.Process.PID, ev.Moved.Cgroup) == "" {
				continue // it is not there any more
			}
			g.o.Registry.Do(func(t registry.Tx) {
				if _, told := g.outside[ev.Process]; !told {
					ev.Time = g.o.Clock.Boottime()
					t.Apply([]tracer.Event{ev})
				}
			})
		}
	}
}

// Run puts members back until ctx is done.
func (g *Moves) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-g.back:
			e, err := g.o.Kernel.Lookup(p.PID)
			if err == nil && e.Identity == p.Identity { // else the PID may be another process's
				err = g.o.Maker.Move(p.group, int(p.PID))
			}
			if err != nil && !errors.Is(err, tracer.ErrNotFound) {
				g.o.Log.Warn().Err(err).Uint32(system.KeyPID, p.PID).Msg("member not put back into its cgroup")
			}
		}
	}
}
