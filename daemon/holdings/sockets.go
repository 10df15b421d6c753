//go:build linux

package holdings

import (
	"math"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// lately is how long a closed socket is remembered: a look that began before may still find it,
	// and the event of the end that came before the close may be late.
	lately = 2 * time.Second
	// maxSockets bounds the sockets of a session, and its ports.
	maxSockets = 1024
)

// socket is a TCP socket that a member listens on, or did. Sockets that members inherited or were
// passed are found only by looks at procfs.
type socket struct {
	id    uint64           // the kernel's, while it is open
	port  Port             // the number is 0 if the kernel chose it too late to report it: a look finds it
	home  tracer.SessionID // of its process
	since uint64           // boottime, ns

	closed uint64 // 0: it is open
}

type sockets struct {
	open   map[uint64]*socket
	closed []*socket // lately, oldest first
}

func (s *sockets) add(k *socket) {
	if s.open == nil {
		s.open = make(map[uint64]*socket)
	}
	if len(s.open) < maxSockets {
		s.open[k.id] = k
	}
}

// close notes that a socket was closed, and reports whether it was in the set.
func (s *sockets) close(k *socket, at uint64) bool {
	if s.open[k.id] != k {
		return false
	}
	delete(s.open, k.id)
	k.closed = at
	if len(s.closed) == maxSockets {
		s.closed = slices.Delete(s.closed, 0, 1)
	}
	s.closed = append(s.closed, k)
	return true
}

func (s *sockets) isOpen(p *Port) bool {
	for _, k := range s.open {
		if k.port.Same(p) {
			return true
		}
	}
	return false
}

// closedSince reports whether the socket that a look found there was closed after the look began.
func (s *sockets) closedSince(p *Port, began uint64) bool {
	return slices.ContainsFunc(s.closed, func(k *socket) bool { return k.closed >= began && k.port.Same(p) }) && !s.isOpen(p)
}

// numbers returns the ports that a look found and those that are open, in ascending order.
func (s *sockets) numbers(looked []Port) (all []int) {
	for _, p := range s.held(looked, latest) {
		if n := int(p.Local.Port()); n != 0 && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// latest is later than any close.
const latest = math.MaxUint64

// held adds to the ports that a look found those that were open at a time. What was closed before, if
// only a moment, is not held: a server that tries an address closes it again.
func (s *sockets) held(looked []Port, at uint64) []Port {
	ports := slices.Clone(looked)
	for _, k := range s.open {
		ports = k.addTo(ports)
	}
	for _, k := range s.closed {
		if k.closed >= at {
			ports = k.addTo(ports)
		}
	}
	slices.SortFunc(ports, ComparePorts)
	return ports
}

// addTo adds the port if no look found it: a look knows more about it.
func (k *socket) addTo(ports []Port) []Port {
	if k.port.Local.Port() == 0 || len(ports) >= maxSockets || slices.ContainsFunc(ports,
		func(p Port) bool { return k.port.Same(&p) }) {
		return ports
	}
	return append(ports, k.port)
}
