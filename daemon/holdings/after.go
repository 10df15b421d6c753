//go:build linux

package holdings

import (
	"context"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// aftermath is the state of the holdings after the end.
type aftermath struct {
	held            Held // before
	freed           Freed
	released, still []Lock
	writers         []tracer.Identity
	unknown         []string
}

// concluding writes the state of the holdings after the end into a receipt. If something was held and
// it was not looked at since, it begins that look, and the receipt waits; a session whose members are
// all gone is given time for its ports.
func (h *Holdings) concluding(v registry.View, s *registry.Session, report *api.Report) (wait bool) {
	its := h.sessions[s.ID()]
	if its == nil {
		return false
	}
	if its.after != nil {
		h.write(its.after, report)
		return false
	}
	alone := its.output == "" || report.Started == 1 // then no other process can have the output
	info := s.Info()
	before := atEnd(v, &info, its)
	if len(before.Ports)+len(before.Locks) == 0 && alone {
		report.HoldsUnknown = before.Unknown
		return false
	}
	if its.looking {
		return true
	}
	its.looking = true
	output, family, owner := its.output, h.cameFrom(v, info.ID), info.Owner
	limit := time.Duration(0)
	if report.Ended != nil {
		limit = h.o.PortsWait()
	}
	go h.o.Registry.Guard(func() {
		a := h.look(before, output, family, owner, limit)
		h.o.Registry.Do(func(t registry.Tx) {
			its.looking, its.after = false, a
			t.Conclude(info.ID)
		})
	})
	return true
}

// atEnd is what the members of a session held when its end began. The last look also knows
// processes that have exited since, or that were moved to another session, whose receipt has what
// they hold.
func atEnd(v registry.View, info *tracer.SessionInfo, its *held) Held {
	all := its.looked
	all.Ports = slices.DeleteFunc(slices.Clone(all.Ports),
		func(p Port) bool { return !untilEnd(v, info, p.Holder) })
	all.Locks = slices.DeleteFunc(slices.Clone(all.Locks),
		func(l Lock) bool { return !untilEnd(v, info, l.Holder) })
	all.Ports = its.sockets.held(all.Ports, info.EndedAt)
	return all
}

// untilEnd reports whether a process was a member when the end of its session began, as far as
// is known. The exit of the root is what may have begun it.
func untilEnd(v registry.View, info *tracer.SessionInfo, holder tracer.Identity) bool {
	n, known := v.Graph().Node(holder)
	return !known || v.Within(n.Session, info.ID) &&
		(n.State == lineage.Live || n.Exited >= info.EndedAt || holder == info.Root)
}

// cameFrom are the sessions that may hold processes which this session started: itself,
// those nested in it, and those that hold processes handed over by these, kept or as
// the work of brokers.
func (h *Holdings) cameFrom(v registry.View, id tracer.SessionID) map[tracer.SessionID]bool {
	family := map[tracer.SessionID]bool{id: true}
	for n := 0; n < len(family); {
		n = len(family)
		for x := range v.Sessions() {
			if family[x.Info().Parent] || slices.ContainsFunc(h.o.Origins,
				func(from Origin) bool { return family[from(v, x)] }) {
				family[x.ID()] = true
			}
		}
	}
	return family
}

// look reads the state of ports, locks and output, once no listener is left on the ports or the wait is over. Output
// and locks that the session's owner has too are left out: the members inherited them.
func (h *Holdings) look(before Held, output string, family map[tracer.SessionID]bool,
	owner tracer.Identity, wait time.Duration) *aftermath {
	a := &aftermath{held: before, unknown: before.Unknown}
	ctx, cancel := context.WithTimeout(context.Background(), wait+collectAside)
	defer cancel()
	began := time.Now()
	for pause := 10 * time.Millisecond; len(before.Ports) > 0; pause = min(2*pause, 250*time.Millisecond) {
		a.freed = h.freed(ctx, before.Ports)
		if len(a.freed.Busy) == 0 || time.Since(began)+pause > wait {
			break
		}
		time.Sleep(pause)
	}
	a.unknown = append(a.unknown, a.freed.Unknown...)
	busy, unknown := h.holders(ctx, a.freed.Busy)
	a.freed.Busy, a.unknown = busy, append(a.unknown, unknown...)
	if len(before.Locks) > 0 {
		var unknown []string
		a.released, a.still, unknown = h.reader.Released(ctx, before.Locks)
		a.unknown = append(a.unknown, unknown...)
	}
	if len(a.still) > 0 && owner != (tracer.Identity{}) {
		inherited := h.reader.Of(ctx, []tracer.Identity{owner}).Locks
		a.still = slices.DeleteFunc(a.still, func(l Lock) bool {
			return slices.ContainsFunc(inherited, func(o Lock) bool { return o.Same(&l) })
		})
	}
	if output == "" {
		return a
	}
	all, err := walk(h.o.Kernel, 0, nil)
	if err == nil {
		var left []tracer.Identity
		for _, u := range all {
			if family[u.session] {
				left = append(left, u.process)
			}
		}
		a.writers, err = h.reader.Writers(ctx, output, left)
	}
	if err != nil {
		a.unknown = append(a.unknown, "output: "+err.Error())
	}
	return a
}

func (h *Holdings) write(a *aftermath, report *api.Report) {
	// The holders are in the list of what was held, not in that of what is free.
	had := make(map[string]tracer.Identity)
	for _, p := range a.held.Ports {
		had[p.String()] = p.Holder
	}
	for _, p := range a.freed.Ports {
		p.Holder = had[p.String()]
		report.PortsFreed = append(report.PortsFreed, p.Document())
	}
	for _, p := range a.freed.Busy {
		report.PortsBusy = append(report.PortsBusy, p.Document())
	}
	for _, w := range a.freed.Waits {
		p := w.Port.Document()
		p.Connections = w.Connections
		report.PortsTimeWait = append(report.PortsTimeWait, p)
	}
	for _, l := range a.released {
		i := slices.IndexFunc(a.held.Locks, func(h Lock) bool { return h.Kind == l.Kind && h.Path == l.Path })
		if i >= 0 {
			l.Holder, l.Waiting = a.held.Locks[i].Holder, a.held.Locks[i].Waiting
		}
		report.LocksReleased = append(report.LocksReleased, l.Document())
	}
	for _, l := range a.still {
		report.LocksHeld = append(report.LocksHeld, l.Document())
	}
	for _, w := range a.writers {
		p := api.Process{Ref: document.Ref(w)}
		if st, err := h.o.Proc.Status(w.PID); err == nil {
			p.Comm = st.Name
		}
		report.OutputHeldBy = append(report.OutputHeldBy, p)
	}
	report.HoldsUnknown = a.unknown
}
