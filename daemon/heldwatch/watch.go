//go:build linux

package heldwatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/pace"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

const (
	// period is the least time between two looks. The rest after a look is share times the CPU
	// time that it used, so that looking takes at most 1 % of a CPU.
	period = 2 * time.Second
	share  = 100
	// limit bounds the look at one session.
	limit = time.Second
)

// Kernel is what a look needs of the tracer.
type Kernel interface {
	Snapshot(session tracer.SessionID, each func(*tracer.Process) error) error
}

// Options of New.
type Options struct {
	Registry *registry.Registry
	Kernel   Kernel
	Clock    registry.Clock
	Every    time.Duration // between two looks; default 2 s
	Log      zerolog.Logger
}

// Watch looks at sessions. A member that has not used a CPU since it was read holds what it held, so
// only the others are read.
type Watch struct {
	o      Options
	work   pace.Work
	opened chan struct{} // there is a new session
	read   map[tracer.SessionID]members
}

// members are those of a session, with the CPU time that they had used when they were read, and
// what they held then.
type members struct {
	cpu  map[tracer.Identity]uint64
	held resources.Held
}

// New makes a watch; attach its hooks.
func New(o Options) *Watch {
	work := pace.Work{Least: cmp.Or(o.Every, period), Share: share, Elsewhere: o.Registry.Holds().CPUElsewhere}
	return &Watch{o: o, work: work, opened: make(chan struct{}, 1)}
}

// Hooks wake the watch.
func (w *Watch) Hooks() *registry.Hooks {
	return &registry.Hooks{Opened: func(registry.View, *registry.Session) {
		select {
		case w.opened <- struct{}{}:
		default:
		}
	}}
}

// Run looks until ctx is done. Without a session it waits for one.
func (w *Watch) Run(ctx context.Context) {
	for {
		w.work.Begin()
		some := w.pass(ctx)
		rest := time.NewTimer(w.work.End())
		again := w.wait(ctx, rest.C, nil)
		rest.Stop()
		if again && !some {
			again = w.wait(ctx, nil, w.opened)
		}
		if !again {
			return
		}
	}
}

// wait serves sessions that begin to end until it is time for the next pass; false: stop.
func (w *Watch) wait(ctx context.Context, rest <-chan time.Time, opened <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case id := <-w.o.Registry.Ending():
			w.o.Registry.Collect(id)
		case <-opened:
			return true
		case <-rest:
			return true
		}
	}
}

// pass looks at all sessions that have not begun to end, and reports whether there are any.
func (w *Watch) pass(ctx context.Context) bool {
	active, around := w.active()
	if len(active) == 0 {
		w.read = nil
		return false
	}
	now, err := w.members(active, around)
	if err != nil {
		w.o.Log.Error().Err(err).Msg("ports and locks not read")
		return true
	}
	before := w.read
	w.read = make(map[tracer.SessionID]members, len(active))
	for _, id := range active {
		select {
		case ending := <-w.o.Registry.Ending(): // it does not wait for sessions that continue
			w.o.Registry.Collect(ending)
		default:
		}
		if ctx.Err() != nil {
			return true
		}
		w.read[id] = w.look(ctx, id, before[id], now[id])
	}
	return true
}

// active lists the sessions that have not begun to end, and for each session the one around it.
func (w *Watch) active() (ids []tracer.SessionID, around map[tracer.SessionID]tracer.SessionID) {
	around = make(map[tracer.SessionID]tracer.SessionID)
	_ = w.o.Registry.Read(func(v registry.View) {
		for s := range v.Sessions() {
			around[s.ID()] = s.Info().Parent
			if s.Active() {
				ids = append(ids, s.ID())
			}
		}
	})
	slices.Sort(ids)
	return ids, around
}

// members returns the CPU time of the live members of each session, nested ones included: one
// walk serves all sessions.
func (w *Watch) members(active []tracer.SessionID, around map[tracer.SessionID]tracer.SessionID) (map[tracer.SessionID]map[tracer.Identity]uint64, error) {
	now := make(map[tracer.SessionID]map[tracer.Identity]uint64, len(active))
	for _, id := range active {
		now[id] = make(map[tracer.Identity]uint64)
	}
	err := w.o.Kernel.Snapshot(0, func(p *tracer.Process) error {
		if p.Dead || p.Zombie {
			return nil
		}
		for id, depth := p.Session, 0; id != 0 && depth < registry.MaxDepth; id, depth = around[id], depth+1 {
			if its := now[id]; its != nil {
				its[p.Identity] = p.CPUTime
			}
		}
		return nil
	})
	return now, err
}

// look reads those members of a session that have used a CPU, and returns what is known of all
// from now on. What could not be read is read again.
func (w *Watch) look(ctx context.Context, id tracer.SessionID, before members, now map[tracer.Identity]uint64) members {
	var stirred []tracer.Identity
	for p, cpu := range now {
		if was, known := before.cpu[p]; !known || was != cpu {
			stirred = append(stirred, p)
		}
	}
	if len(stirred) == 0 && len(now) == len(before.cpu) {
		return before
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := w.o.Clock.Boottime()
	held := w.o.Registry.Holds().Of(ctx, stirred)
	quiet := func(p tracer.Identity) bool {
		cpu, lives := now[p]
		was, known := before.cpu[p]
		return lives && known && was == cpu
	}
	for _, p := range before.held.Ports {
		if quiet(p.Holder) {
			held.Ports = append(held.Ports, p)
		}
	}
	for _, l := range before.held.Locks {
		if quiet(l.Holder) {
			held.Locks = append(held.Locks, l)
		}
	}
	slices.SortFunc(held.Ports, resources.ComparePorts)
	if len(held.Unknown) > 0 {
		for _, p := range stirred {
			delete(now, p)
		}
	}
	_ = w.o.Registry.Update(func(t registry.Tx) {
		if s := t.Session(id); s != nil && !s.Closed() {
			t.Refresh(s)
			t.Holds(s, held, began)
		}
	})
	return members{now, held}
}
