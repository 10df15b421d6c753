//go:build linux

package holdings

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// period is the least time between two passes. The rest after a pass is share times the CPU
	// time that it used, so that looking takes at most 1 % of a CPU.
	period = 2 * time.Second
	share  = 100
	limit  = time.Second
	// useEvery is the least time between two looks for clients at the ports of a session. A closed TCP
	// connection is seen for a minute.
	useEvery = 30 * time.Second
)

// Run reads what members hold, after looks of the registry, until ctx is done.
func (h *Holdings) Run(ctx context.Context) {
	looks, rest := h.looks, (<-chan time.Time)(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-h.ending:
			h.collect(collectAside, id)
		case <-rest:
			looks, rest = h.looks, nil
		case <-looks:
			h.work.Begin()
			h.pass(ctx)
			looks, rest = nil, time.After(h.work.End())
		}
	}
}

// pass reads those members of sessions that have not begun to end that have used a CPU before the last look.
func (h *Holdings) pass(ctx context.Context) {
	now := h.spare[:0]
	active, around := h.active(func() { now = append(now, h.members...) })
	var stirred []tracer.SessionID
	if !slices.Equal(h.used, now) { // mostly nothing has run
		before, after := bySession(h.used, active, around), bySession(now, active, around)
		again := make(map[tracer.Identity]bool)
		for _, id := range active {
			h.serve()
			if ctx.Err() != nil {
				return
			}
			if !maps.Equal(before[id], after[id]) {
				stirred = append(stirred, id)
				h.reread(ctx, id, before[id], after[id], again)
			}
		}
		for i := range now {
			if again[now[i].process] {
				now[i].cpu = unread
			}
		}
	}
	h.used, h.spare = now, h.used
	for _, id := range h.clientsDue(active, stirred) {
		h.serve()
		h.LookForClients(ctx, id)
	}
}

// serve lets a session that begins to end not wait for those that continue.
func (h *Holdings) serve() {
	select {
	case ending := <-h.ending:
		h.collect(collectAside, ending)
	default:
	}
}

// active lists the sessions that have not begun to end, and for each session the one around it, and calls f then.
func (h *Holdings) active(f func()) (ids []tracer.SessionID, around map[tracer.SessionID]tracer.SessionID) {
	around = make(map[tracer.SessionID]tracer.SessionID)
	err := h.o.Registry.Read(func(v registry.View) {
		for s := range v.Sessions() {
			around[s.ID()] = s.Info().Parent
			if s.Active() {
				ids = append(ids, s.ID())
			}
		}
		f()
	})
	if err != nil {
		return nil, nil
	}
	slices.Sort(ids)
	return ids, around
}

type used struct {
	process tracer.Identity
	session tracer.SessionID
	cpu     uint64
}

// unread is the CPU time of a member that has to be read again.
const unread = math.MaxUint64

// walk adds the live members of a session, or with 0 of all, to a list.
func walk(k registry.Kernel, id tracer.SessionID, all []used) ([]used, error) {
	err := k.Snapshot(id, func(p *tracer.Process) error {
		if !p.Dead && !p.Zombie && p.Session != 0 {
			all = append(all, used{p.Identity, p.Session, p.CPUTime})
		}
		return nil
	})
	return all, err
}

// bySession sorts members by session; those of nested ones are in each around it.
func bySession(
	all []used, sessions []tracer.SessionID, around map[tracer.SessionID]tracer.SessionID,
) map[tracer.SessionID]map[tracer.Identity]uint64 {
	now := make(map[tracer.SessionID]map[tracer.Identity]uint64, len(sessions))
	for _, id := range sessions {
		now[id] = make(map[tracer.Identity]uint64)
	}
	for _, u := range all {
		id := u.session
		for depth := 0; id != 0 && depth < registry.MaxDepth; depth++ {
			if its := now[id]; its != nil {
				its[u.process] = u.cpu
			}
			id = around[id]
		}
	}
	return now
}

// reread reads those members of a session that have used a CPU, and notes those that have to be read again: what
// they hold could not be read, or kept.
func (h *Holdings) reread(
	ctx context.Context, id tracer.SessionID, before, now map[tracer.Identity]uint64,
	again map[tracer.Identity]bool,
) {
	var stirred []tracer.Identity
	for p, cpu := range now {
		if was, known := before[p]; !known || was != cpu {
			stirred = append(stirred, p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := h.o.Clock.Boottime()
	held := h.reader.Of(ctx, stirred)
	looked := h.looked(id)
	quiet := func(p tracer.Identity) bool {
		cpu, lives := now[p]
		was, known := before[p]
		return lives && known && was == cpu
	}
	for _, p := range looked.Ports {
		if quiet(p.Holder) {
			held.Ports = append(held.Ports, p)
		}
	}
	for _, l := range looked.Locks {
		if quiet(l.Holder) {
			held.Locks = append(held.Locks, l)
		}
	}
	slices.SortFunc(held.Ports, ComparePorts)
	if len(held.Unknown) > 0 {
		for _, p := range stirred {
			again[p] = true
		}
	}
	h.found(id, held, began)
	if looked = h.looked(id); len(looked.Ports) < len(held.Ports) || len(looked.Locks) < len(held.Locks) {
		for p := range now { // some of it may have had no room
			again[p] = true
		}
	}
}

// looked is what the last look at a session found.
func (h *Holdings) looked(id tracer.SessionID) (all Held) {
	h.o.Registry.Do(func(registry.Tx) {
		if its := h.sessions[id]; its != nil {
			all = its.looked
		}
	})
	return all
}

// use is what is known of clients at a session's ports.
type use struct {
	looked time.Duration // CLOCK_MONOTONIC of the last look for them, 0: none
	seen   uint64        // boottime at which the last look found one, 0: none
	now    bool          // that was the last look

	stirred bool // a member has used a CPU since
}

// describe notes the ports of a session, and that it is not idle if a client was seen at one.
func (h *Holdings) describe(v registry.View, s *registry.Session, d *document.Session) {
	d.Ports = h.ports(v, s)
	if its := h.sessions[s.ID()]; its != nil && its.use.now && len(d.Ports) > 0 {
		d.Used.Idle = 0
	} else if its != nil {
		now := h.o.Clock.Boottime()
		d.Used.Idle = min(d.Used.Idle, time.Duration(now-min(its.use.seen, now)))
	}
}

// clientsDue notes in which sessions members have used a CPU, and returns those in which it is time to look for
// clients at the ports. A process that has not used a CPU took no client.
func (h *Holdings) clientsDue(active, stirred []tracer.SessionID) (due []tracer.SessionID) {
	now := h.o.Clock.Monotonic()
	h.o.Registry.Do(func(t registry.Tx) {
		for _, id := range active {
			s, its := t.Session(id), h.sessions[id]
			if s == nil || its == nil {
				continue
			}
			its.use.stirred = its.use.stirred || slices.Contains(stirred, id)
			switch {
			case !its.use.stirred && !its.use.now, its.use.looked != 0 && now-its.use.looked < useEvery:
			case len(h.Held(t.View, s).Ports) == 0:
				its.use.stirred, its.use.now = false, false
			default:
				due = append(due, id)
			}
		}
	})
	return due
}

func (h *Holdings) LookForClients(ctx context.Context, id tracer.SessionID) {
	var ports []Port
	if h.o.Registry.Read(func(v registry.View) {
		if s := v.Session(id); s != nil {
			ports = h.Held(v, s).Ports
		}
	}) != nil || len(ports) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	used := h.reader.InUse(ctx, ports)
	h.o.Registry.Do(func(registry.Tx) {
		if its := h.sessions[id]; its != nil {
			its.use.stirred, its.use.looked, its.use.now = false, h.o.Clock.Monotonic(), used
			if used {
				its.use.seen = h.o.Clock.Boottime()
			}
		}
	})
}
