//go:build linux

package registry

import (
	"context"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/pace"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/tracer"
)

// heldWatch looks at what live sessions hold once in a while: when the kernel ends one with grace 0
// no process is left to be asked. A member that has not used a CPU since it was read holds what it
// held, so only the others are read.
type heldWatch struct {
	registry *Registry
	work     pace.Work
	read     map[tracer.SessionID]map[tracer.Identity]uint64 // CPU time of the members when they were read
}

// run looks until ctx is done. While there is no session it waits for one.
func (w *heldWatch) run(ctx context.Context) {
	for {
		w.work.Begin()
		some := w.pass(ctx)
		rest := time.NewTimer(w.work.End())
		again := w.wait(ctx, rest.C, nil)
		rest.Stop()
		if again && !some {
			again = w.wait(ctx, nil, w.registry.opened)
		}
		if !again {
			return
		}
	}
}

// wait serves sessions that begin to end until it is time for the next pass, false: never.
func (w *heldWatch) wait(ctx context.Context, rest <-chan time.Time, opened <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case id := <-w.registry.ending:
			w.registry.collect(id, collectAside)
		case <-opened:
			return true
		case <-rest:
			return true
		}
	}
}

// pass looks at all sessions that have not begun to end, and reports whether there are any.
func (w *heldWatch) pass(ctx context.Context) bool {
	active, around := w.active()
	if len(active) == 0 {
		w.read = nil
		return false
	}
	now, err := w.members(active, around)
	if err != nil {
		w.registry.log.Error().Err(err).Msg("ports and locks not read")
		return true
	}
	before := w.read
	w.read = make(map[tracer.SessionID]map[tracer.Identity]uint64, len(active))
	for _, id := range active {
		// A session that ends does not wait for those that continue.
		for len(w.registry.ending) > 0 {
			w.registry.collect(<-w.registry.ending, collectAside)
		}
		if ctx.Err() != nil {
			return true
		}
		w.read[id] = w.look(ctx, id, before[id], now[id])
	}
	return true
}

// active names the sessions that have not begun to end, and for each the one around it.
func (w *heldWatch) active() (ids []tracer.SessionID, around map[tracer.SessionID]tracer.SessionID) {
	around = make(map[tracer.SessionID]tracer.SessionID)
	_ = w.registry.do(func() {
		for id, s := range w.registry.sessions {
			around[id] = s.info.Parent
			if s.Active() {
				ids = append(ids, id)
			}
		}
	})
	slices.Sort(ids)
	return ids, around
}

// members gives the CPU time of the live members of each session, nested ones included.
func (w *heldWatch) members(active []tracer.SessionID, around map[tracer.SessionID]tracer.SessionID) (map[tracer.SessionID]map[tracer.Identity]uint64, error) {
	now := make(map[tracer.SessionID]map[tracer.Identity]uint64, len(active))
	for _, id := range active {
		now[id] = make(map[tracer.Identity]uint64)
	}
	err := w.registry.kernel.Snapshot(0, func(p *tracer.Process) error {
		if p.Dead || p.Zombie {
			return nil
		}
		for id, depth := p.Session, 0; id != 0 && depth < MaxDepth; id, depth = around[id], depth+1 {
			if its := now[id]; its != nil {
				its[p.Identity] = p.CPUTime
			}
		}
		return nil
	})
	return now, err
}

// look reads those members of a session that have used a CPU, and gives what is known of all from
// now on. What could not be read is read again.
func (w *heldWatch) look(ctx context.Context, id tracer.SessionID, before, now map[tracer.Identity]uint64) map[tracer.Identity]uint64 {
	var stirred []tracer.Identity
	for p, cpu := range now {
		if was, known := before[p]; !known || was != cpu {
			stirred = append(stirred, p)
		}
	}
	if len(stirred) == 0 && len(now) == len(before) {
		return now
	}
	ctx, cancel := context.WithTimeout(ctx, collectAside)
	defer cancel()
	o := w.registry
	began := o.clock.Boottime()
	held := o.holds.Of(ctx, stirred)
	if len(held.Unknown) > 0 {
		for _, p := range stirred {
			delete(now, p)
		}
	}
	_ = o.do(func() {
		s := o.sessions[id]
		if s == nil || s.closed {
			return
		}
		quiet := func(p tracer.Identity) bool {
			cpu, lives := now[p]
			was, known := before[p]
			return lives && known && was == cpu
		}
		for _, p := range s.held.Ports {
			if quiet(p.Holder) {
				held.Ports = append(held.Ports, p)
			}
		}
		for _, l := range s.held.Locks {
			if quiet(l.Holder) {
				held.Locks = append(held.Locks, l)
			}
		}
		slices.SortFunc(held.Ports, resources.ComparePorts)
		o.view().Refresh(s)
		s.seen(held, began)
	})
	return now
}
