//go:build linux

package registry

import (
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/daemon/sockets"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// listeners are the sockets that members listen on, by the kernel's key. They belong to the
// registry's goroutine.
type listeners struct {
	registry *Registry
	open     map[uint64]*sockets.Socket
}

// begins notes that a member listens. A socket may be reported twice: by the kernel's list, and
// by an event that was on its way.
func (l *listeners) begins(ev *tracer.Event) {
	if old := l.open[ev.Socket]; old != nil {
		if old.Since == ev.Since {
			return
		}
		l.close(old, ev.Time) // its unlisten event was lost
	}
	k := &sockets.Socket{ID: ev.Socket, Port: l.registry.holds.Listening(ev.Process, ev.Address), Since: ev.Since}
	l.open[k.ID] = k
	l.house(k, ev.Session)
	if k.Port.Local.Port() == 0 {
		l.registry.askHeld(ev.Session)
	}
}

// ends notes that a socket was closed.
func (l *listeners) ends(ev *tracer.Event) {
	if k := l.open[ev.Socket]; k != nil && k.Since == ev.Since {
		l.close(k, ev.Time)
	}
}

// house gives a socket to the session of its process, and to the sessions around that.
func (l *listeners) house(k *sockets.Socket, id tracer.SessionID) {
	k.Home = id
	for _, s := range l.around(id) {
		s.sockets.Add(k)
		l.registry.view().Changed(s.info.ID)
	}
}

// around returns a session and those around it, without those that have ended.
func (l *listeners) around(id tracer.SessionID) (all []*Session) {
	for _, id := range l.registry.view().Chain(id) {
		if s := l.registry.sessions[id]; s != nil && !s.closed {
			all = append(all, s)
		}
	}
	return all
}

// close removes a socket, and what the last look found of it while the session is active: once
// the end has begun the look shows what was held then.
func (l *listeners) close(k *sockets.Socket, at uint64) {
	delete(l.open, k.ID)
	for _, s := range l.around(k.Home) {
		if s.sockets.Close(k, at) && s.info.State == tracer.StateActive {
			s.sockets.Tidy(at)
			s.unport(&k.Port)
		}
		l.registry.view().Changed(s.info.ID)
	}
}

// unport removes from what the last look found a port at which no socket of the session is open now.
func (s *Session) unport(k *resources.Port) {
	s.held.Ports = slices.DeleteFunc(slices.Clone(s.held.Ports), func(p resources.Port) bool { return k.Same(&p) && !s.sockets.Open(&p) })
}

// rehouse follows processes that changed their session.
func (l *listeners) rehouse() {
	for _, k := range l.open {
		n, ok := l.registry.graph.Node(k.Port.Holder)
		if !ok || n.Session == k.Home || l.registry.sessions[n.Session] == nil {
			continue
		}
		before := l.around(k.Home)
		for _, s := range before {
			s.sockets.Remove(k)
			l.registry.view().Changed(s.info.ID)
		}
		l.house(k, n.Session)
		for _, s := range before {
			s.unport(&k.Port)
		}
	}
}

// relist takes the kernel's list of the sockets that members listen on, at the start and when
// events may have been lost. Changes after the list was made are reported by events that are
// still to come.
func (l *listeners) relist() error {
	open := make(map[uint64]bool)
	err := l.registry.kernel.Listeners(func(ev *tracer.Event) {
		open[ev.Socket] = true
		if l.registry.sessionOf(ev.Session) != nil {
			l.begins(ev)
		}
	})
	if err != nil {
		return err
	}
	for id, k := range l.open {
		if !open[id] {
			l.close(k, l.registry.clock.Boottime())
		}
	}
	return nil
}

// Listening returns the sockets at a TCP port, if the members that began to listen are alive.
func (v View) Listening(port uint16) (all []resources.Port) {
	for _, k := range v.r.listeners.open {
		if k.Port.Local.Port() != port {
			continue
		}
		if n, ok := v.r.graph.Node(k.Port.Holder); ok && n.State == lineage.Live {
			all = append(all, k.Port)
		}
	}
	return all
}

// Held is what its members hold: the TCP listeners that the kernel reported, the rest as of the last
// look.
func (s *Session) Held() resources.Held {
	h := s.held
	h.Ports = s.sockets.Held(h.Ports)
	return h
}

// ports are the numbers of the TCP and UDP ports that a session's members listen on. A look at
// procfs is some time ago: what it found of a process that has died or left since is left out.
func (v View) ports(s *Session) []int {
	family := v.Family(s.info.ID)
	return s.sockets.Numbers(slices.DeleteFunc(slices.Clone(s.held.Ports), func(p resources.Port) bool {
		n, ok := v.r.graph.Node(p.Holder)
		return ok && (n.State != lineage.Live || !slices.Contains(family, n.Session))
	}))
}
