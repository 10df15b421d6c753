//go:build linux

package daemon

import (
	"sync"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	ringRecords = 32768
	ringBytes   = 16 << 20 // of command lines
)

// record is one event as readers get it. Its slices are never changed again.
type record struct {
	seq uint64
	tracer.Event
}

// ring is the recent events, one for all readers: each has a cursor into it
// and nobody a queue of its own. One writer.
type ring struct {
	readers atomic.Int32

	mu    sync.Mutex
	buf   []record
	first uint64 // oldest sequence number that is still here
	next  uint64 // the next to be given
	began uint64 // the first that was ever given; it does not change
	bytes int
	wake  chan struct{} // closed when something is added
}

// newRing starts at seq. Sequence numbers go on across daemons: they start at
// the boottime in microseconds, which no daemon's count catches up with, so a
// reader that resumes at another daemon sees a gap and not a repetition.
func newRing(seq uint64, size int) *ring {
	return &ring{buf: make([]record, size), first: seq, next: seq, began: seq, wake: make(chan struct{})}
}

// add appends events, in order. It copies nothing but the events themselves.
func (r *ring) add(events ...tracer.Event) {
	if len(events) == 0 {
		return
	}
	r.mu.Lock()
	for i := range events {
		ev := &events[i]
		r.bytes += len(ev.Filename) + len(ev.Argv)
		for r.next-r.first == uint64(len(r.buf)) || r.bytes > ringBytes && r.first < r.next {
			old := &r.buf[r.first%uint64(len(r.buf))]
			r.bytes -= len(old.Filename) + len(old.Argv)
			*old = record{}
			r.first++
		}
		r.buf[r.next%uint64(len(r.buf))] = record{r.next, *ev}
		r.next++
	}
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
// lost. With nothing to give it returns a channel that is closed when there is.
func (r *ring) read(seq uint64, buf []record) (n int, first uint64, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = max(seq, r.first)
	for ; n < len(buf) && first+uint64(n) < r.next; n++ {
		buf[n] = r.buf[(first+uint64(n))%uint64(len(r.buf))]
	}
	return n, first, r.wake
}
