//go:build linux

package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

const (
	ringRecords = 32768
	ringBlock   = 1024     // records that are allocated together
	ringBytes   = 16 << 20 // of command lines
)

// record is one event as readers get it. Its slices are never changed again.
type record struct {
	seq uint64
	tracer.Event
	about *about // nil: nobody knows its session
}

// about is what readers of a session's events have to know of it. It goes with
// each of them, so that readers have nothing to ask the registry. But for over
// nothing of it ever changes.
type about struct {
	scope access.Scope
	over  atomic.Bool // the session's last event has been added
}

// of is made with the first event that readers get of a session. It is called in
// the registry's goroutine.
func (r *ring) of(v registry.View, s *registry.Session) *about {
	a := r.sessions[s.ID()]
	if a == nil {
		a = &about{scope: v.Scope(s)}
		r.sessions[s.ID()] = a
	}
	return a
}

// hooks take what readers get.
func (r *ring) hooks() *registry.Hooks {
	return &registry.Hooks{
		Published: r.publish,
		Closed:    func(v registry.View, s *registry.Session) { r.of(v, s).over.Store(true) },
		Forgotten: func(_ registry.View, s *registry.Session) { delete(r.sessions, s.ID()) },
	}
}

func (r *ring) publish(v registry.View, events []tracer.Event) {
	var last tracer.SessionID // most come in rows
	var its *about
	r.add(events, func(id tracer.SessionID) *about {
		if id != last {
			last, its = id, nil
			if s := v.Session(id); s != nil {
				its = r.of(v, s)
			}
		}
		return its
	})
}

// ring is the recent events, one for all readers: each has a cursor into it
// and nobody a queue of its own. One writer.
type ring struct {
	readers  atomic.Int32
	sessions map[tracer.SessionID]*about // of the registry's goroutine

	mu    sync.Mutex
	size  uint64     // records that it holds
	buf   [][]record // in blocks; nil: never used
	first uint64     // oldest sequence number that is still here
	next  uint64     // the next to be given
	began uint64     // the first that was ever given; it does not change
	bytes int
	wake  chan struct{} // closed when something was added
	added chan struct{} // tells pace
}

// newRing starts at seq. Sequence numbers go on across daemons: they start at
// the boottime in microseconds, which no daemon's count catches up with, so a
// reader that resumes at another daemon sees a gap and not a repetition. Memory
// comes with the events: most hosts see few.
func newRing(seq uint64, size int) *ring {
	return &ring{
		sessions: make(map[tracer.SessionID]*about),
		size:     uint64(size), buf: make([][]record, (size+ringBlock-1)/ringBlock),
		first: seq, next: seq, began: seq, wake: make(chan struct{}), added: make(chan struct{}, 1),
	}
}

// slot is where the event of that number is, or will be.
func (r *ring) slot(seq uint64) *record {
	i := seq % r.size
	if r.buf[i/ringBlock] == nil {
		r.buf[i/ringBlock] = make([]record, min(ringBlock, r.size))
	}
	return &r.buf[i/ringBlock][i%ringBlock]
}

// add appends events, in order, and gives them their numbers; of tells what is
// known of their sessions. It copies nothing but the events themselves. What it
// costs does not depend on the readers: pace wakes them.
func (r *ring) add(events []tracer.Event, of func(tracer.SessionID) *about) {
	if len(events) == 0 {
		return
	}
	r.mu.Lock()
	for i := range events {
		ev := &events[i]
		r.bytes += len(ev.Filename) + len(ev.Argv)
		for r.next-r.first == r.size || r.bytes > ringBytes && r.first < r.next {
			old := r.slot(r.first)
			r.bytes -= len(old.Filename) + len(old.Argv)
			old.Filename, old.Argv, old.about = nil, nil, nil
			r.first++
		}
		slot := r.slot(r.next)
		slot.seq, slot.about = r.next, of(ev.Session)
		slot.Event = *ev
		r.next++
	}
	r.mu.Unlock()
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// pace wakes the readers when something was added: all at once, and not before
// what comes with it is gathered, so that each gets one write for many events.
func (r *ring) pace(ctx context.Context, gather time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.added:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather):
		}
		r.wakeUp()
	}
}

func (r *ring) wakeUp() {
	r.mu.Lock()
	wake := r.wake
	r.wake = make(chan struct{})
	r.mu.Unlock()
	close(wake)
}

// end is the sequence number that the next event will get.
func (r *ring) end() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// read copies events from seq on into buf. first is the sequence number of the
// oldest event it could give: if it is greater than seq those between are
// lost. wake is closed when there is more.
func (r *ring) read(seq uint64, buf []record) (n int, first uint64, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = max(seq, r.first)
	for ; n < len(buf) && first+uint64(n) < r.next; n++ {
		buf[n] = *r.slot(first + uint64(n))
	}
	return n, first, r.wake
}
