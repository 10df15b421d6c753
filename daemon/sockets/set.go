//go:build linux

package sockets

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// lately is how long a closed socket is remembered: a look that began before may still find it,
	// and the event of the end that came before the close may be late.
	lately = 2 * time.Second
	// maxSockets bounds the sockets of a session, and its ports.
	maxSockets = 1024
)

// Socket is one that a member listens on, or did.
type Socket struct {
	ID    uint64           // the kernel's, while it is open
	Port  resources.Port   // the number is 0 if the kernel chose it too late to report it: a look finds it
	Home  tracer.SessionID // of its process
	Since uint64           // boottime, ns

	closed uint64 // 0: it is open
}

// Set is the sockets of a session. Its zero value is empty.
type Set struct {
	open   map[uint64]*Socket
	closed []*Socket // lately, oldest first
}

// Add adds an open socket.
func (s *Set) Add(k *Socket) {
	if s.open == nil {
		s.open = make(map[uint64]*Socket)
	}
	if len(s.open) < maxSockets {
		s.open[k.ID] = k
	}
}

// Remove removes a socket whose process is in another session now.
func (s *Set) Remove(k *Socket) { delete(s.open, k.ID) }

// Close notes that a socket was closed, and reports whether it was in the set.
func (s *Set) Close(k *Socket, at uint64) bool {
	if s.open[k.ID] != k {
		return false
	}
	delete(s.open, k.ID)
	k.closed = at
	if len(s.closed) == maxSockets {
		s.closed = slices.Delete(s.closed, 0, 1)
	}
	s.closed = append(s.closed, k)
	return true
}

// Tidy forgets the sockets that were closed long before a time.
func (s *Set) Tidy(now uint64) {
	s.closed = slices.DeleteFunc(s.closed, func(k *Socket) bool { return k.closed+uint64(lately) < now })
}

// Open reports whether a socket is open at that port.
func (s *Set) Open(p *resources.Port) bool {
	for _, k := range s.open {
		if k.Port.Same(p) {
			return true
		}
	}
	return false
}

// ClosedSince reports whether the socket that a look found there was closed after the look began.
func (s *Set) ClosedSince(p *resources.Port, began uint64) bool {
	return slices.ContainsFunc(s.closed, func(k *Socket) bool { return k.closed >= began && k.Port.Same(p) }) && !s.Open(p)
}

// Held adds the open ports to those that a look found.
func (s *Set) Held(looked []resources.Port) []resources.Port {
	ports := slices.Clone(looked)
	for _, k := range s.open {
		ports = k.addTo(ports)
	}
	slices.SortFunc(ports, resources.ComparePorts)
	return ports
}

// Numbers returns the ports that a look found and those that are open, in ascending order.
func (s *Set) Numbers(looked []resources.Port) (all []int) {
	for _, p := range s.Held(looked) {
		if n := int(p.Local.Port()); n != 0 && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// HeldAt adds those that were open at a time. What was closed before, if only a moment, is not held:
// a server that tries an address closes it again.
func (s *Set) HeldAt(looked []resources.Port, at uint64) []resources.Port {
	ports := s.Held(looked)
	for _, k := range s.closed {
		if k.closed >= at {
			ports = k.addTo(ports)
		}
	}
	slices.SortFunc(ports, resources.ComparePorts)
	return ports
}

// addTo adds the port if no look found it: a look knows more about it.
func (k *Socket) addTo(ports []resources.Port) []resources.Port {
	if k.Port.Local.Port() == 0 || len(ports) >= maxSockets || slices.ContainsFunc(ports, func(p resources.Port) bool { return k.Port.Same(&p) }) {
		return ports
	}
	return append(ports, k.Port)
}
