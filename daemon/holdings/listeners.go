//go:build linux

package holdings

import (
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// listened takes the kernel's event that a member listens, or that a socket was closed.
func (h *Holdings) listened(v registry.View, s *registry.Session, ev *tracer.Event) {
	switch k := h.open[ev.Socket]; {
	case ev.Type == tracer.EventUnlisten:
		if k != nil && k.since == ev.Since {
			h.close(v, k, ev.Time)
		}
	case s != nil && ev.Type == tracer.EventListen:
		h.listens(v, ev)
	}
}

// listens notes that a member listens. A socket may be reported twice: by the kernel's list, and
// by an event that was on its way.
func (h *Holdings) listens(v registry.View, ev *tracer.Event) {
	if old := h.open[ev.Socket]; old != nil {
		if old.since == ev.Since {
			return
		}
		h.close(v, old, ev.Time) // its unlisten event was lost
	}
	k := &socket{id: ev.Socket, port: h.reader.Listening(ev.Process, ev.Address), since: ev.Since}
	h.open[k.id] = k
	h.house(v, k, ev.Session)
	if k.port.Local.Port() == 0 {
		h.ask(ev.Session)
	}
}

// house gives a socket to the session of its process, and to the sessions around that.
func (h *Holdings) house(v registry.View, k *socket, id tracer.SessionID) {
	k.home = id
	for id := range v.Chain(id) {
		if its := h.sessions[id]; its != nil {
			its.sockets.add(k)
			v.Changed(id)
		}
	}
}

// close removes a socket, and what the last look found of it while the session is active: once
// the end has begun the look shows what was held then.
func (h *Holdings) close(v registry.View, k *socket, at uint64) {
	delete(h.open, k.id)
	for id := range v.Chain(k.home) {
		its := h.sessions[id]
		if its == nil {
			continue
		}
		if its.sockets.close(k, at) && v.Session(id).Info().State == tracer.StateActive {
			its.sockets.closed = slices.DeleteFunc(its.sockets.closed,
				func(k *socket) bool { return k.closed+uint64(lately) < at })
			its.unport(&k.port)
		}
		v.Changed(id)
	}
}

// unport removes from what the last look found a port at which no socket of the session is open now.
func (h *held) unport(k *Port) {
	h.looked.Ports = slices.DeleteFunc(slices.Clone(h.looked.Ports),
		func(p Port) bool { return k.Same(&p) && !h.sockets.isOpen(&p) })
}

// sampled notes which members have run, follows processes that changed their session, and takes the kernel's list
// when events may have been lost.
func (h *Holdings) sampled(v registry.View, l *registry.Look) (after func()) {
	h.members = h.members[:0]
	for i := range l.Seen {
		if p := &l.Seen[i]; p.Session != 0 && !p.Dead && !p.Zombie {
			h.members = append(h.members, used{p.ID, p.Session, p.CPUTime})
		}
	}
	system.Offer(h.looks, struct{}{})
	if l.Cause != registry.CauseNone || len(l.Changes) > 0 {
		h.rehouse(v)
	}
	if l.Cause != registry.CauseNone {
		l.Fail(h.relist(v))
	}
	return nil
}

// rehouse follows processes that changed their session.
func (h *Holdings) rehouse(v registry.View) {
	for _, k := range h.open {
		n, ok := v.Graph().Node(k.port.Holder)
		if !ok || n.Session == k.home || v.Session(n.Session) == nil {
			continue
		}
		before := v.Chain(k.home)
		for id := range before {
			if its := h.sessions[id]; its != nil {
				delete(its.sockets.open, k.id)
				v.Changed(id)
			}
		}
		h.house(v, k, n.Session)
		for id := range before {
			if its := h.sessions[id]; its != nil {
				its.unport(&k.port)
			}
		}
	}
}

// relist takes the kernel's list of the sockets that members listen on, at the start and when
// events may have been lost. Changes after the list was made are reported by events that are
// still to come.
func (h *Holdings) relist(v registry.View) error {
	open := make(map[uint64]bool)
	err := h.o.Kernel.Listeners(func(ev *tracer.Event) {
		open[ev.Socket] = true
		if v.Ask(ev.Session) != nil {
			h.listens(v, ev)
		}
	})
	if err != nil {
		return err
	}
	for id, k := range h.open {
		if !open[id] {
			h.close(v, k, h.o.Clock.Boottime())
		}
	}
	return nil
}

// Listening returns the sockets at a TCP port, if the members that began to listen are alive.
func (h *Holdings) Listening(v registry.View, port uint16) (all []Port) {
	for _, k := range h.open {
		if k.port.Local.Port() != port {
			continue
		}
		if n, ok := v.Graph().Node(k.port.Holder); ok && n.State == lineage.Live {
			all = append(all, k.port)
		}
	}
	return all
}
