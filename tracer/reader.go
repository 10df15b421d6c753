//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// pollInterval is how long an event may wait while the reader polls.
const pollInterval = 10 * time.Millisecond

// ErrFlushed is returned by Read when it has returned all events before a Flush.
var ErrFlushed = errors.New("flushed")

// reader takes events off the ring. While events come it polls, and tells the hooks so,
// because waking it for each event would cost ten times the rest of a hook. When none
// came for a whole interval it sleeps until one wakes it.
type reader struct {
	ring    *ringbuf.Reader
	control control
	lost    func() (uint64, error) // total events that the ring had no room for

	reading sync.Mutex  // held by Read
	closed  atomic.Bool // Read returns no more events

	record    ringbuf.Record
	polling   bool
	fresh     bool              // a record came in this interval
	next      map[uint16]uint64 // per CPU, the next sequence number
	reported  uint64            // of lost, how many Read has reported
	suspect   bool              // a gap was seen: call lost
	pending   bool              // record holds an event that was not returned yet
	flushed   bool              // everything before a flush was read
	last      uint64            // Time of the last event that was returned
	malformed atomic.Uint64
}

func newReader(ring *ringbuf.Reader, c control, lost func() (uint64, error)) *reader {
	r := &reader{ring: ring, control: c, lost: lost, suspect: true, next: map[uint16]uint64{}}
	r.sleep() // the previous reader may have been killed while it polled
	return r
}

// Read waits for the next event. It returns an [EventLost] before the first event that
// follows a loss, and within an interval if none follows. An unknown event is counted
// and skipped. [ErrFlushed] after Flush, [os.ErrClosed] after CloseRead.
func (t *Tracer) Read(ev *Event) error {
	r := t.reader
	r.reading.Lock()
	defer r.reading.Unlock()
	for !r.closed.Load() {
		if r.suspect {
			if n, err := r.newlyLost(); err != nil {
				return err
			} else if n > 0 {
				*ev = Event{Type: EventLost, Count: n, Since: r.last, Time: r.until()}
				return nil
			}
		}
		if r.flushed {
			r.flushed = false
			return ErrFlushed
		}
		if !r.pending {
			switch err := r.take(); {
			case errors.Is(err, ringbuf.ErrFlushed):
				r.flushed, r.suspect = true, true // a loss is reported first
				continue
			case errors.Is(err, os.ErrDeadlineExceeded):
				r.intervalOver()
				continue
			case err != nil:
				return fmt.Errorf("read the ring buffer: %w", err)
			}
		}
		r.pending = false
		if err := decode(r.record.RawSample, ev); err != nil {
			r.malformed.Add(1)
			continue
		}
		if r.gap(ev) {
			r.suspect, r.pending = true, true
			continue
		}
		r.last = max(r.last, ev.Time)
		return nil
	}
	return os.ErrClosed
}

// Flush makes Read return [ErrFlushed] once it has returned every event that the kernel
// sent before the call. Several calls before that may share one [ErrFlushed].
func (t *Tracer) Flush() error {
	return t.reader.ring.Flush()
}

// CloseRead ends a pending Read, and all later ones, with [os.ErrClosed]. When it
// returns, no Read is running.
func (t *Tracer) CloseRead() error {
	r := t.reader
	r.closed.Store(true)
	err := r.ring.Flush()
	r.reading.Lock()
	defer r.reading.Unlock()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// until is when a loss that is reported now was over: before the event that revealed
// it, or now.
func (r *reader) until() uint64 {
	if h, ok := view[bpf.LineageEventHeader](r.record.RawSample); ok && r.pending {
		return max(h.Time, r.last)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return r.last // the clock exists since 2.6.39
	}
	return uint64(now.Nano())
}

// take reads a record. When the ring is empty it polls for an interval, or sleeps if
// the last interval had no event.
func (r *reader) take() error {
	if err := r.ring.ReadInto(&r.record); err != nil {
		return err
	}
	r.fresh = true
	if !r.polling {
		r.polling = true
		r.control.setPolling(true)
	}
	if r.record.Remaining == 0 {
		r.ring.SetDeadline(time.Now().Add(pollInterval))
	}
	return nil
}

func (r *reader) intervalOver() {
	r.suspect = true
	if r.fresh {
		r.fresh = false
		r.ring.SetDeadline(time.Now().Add(pollInterval))
		return
	}
	r.sleep()
}

// sleep makes the next event wake the reader. The kernel wakes only a reader that had read everything, so an event that
// came without a wakeup must be read first. It took its place in the ring before it looked at polling: after the store
// either it is seen here, or it wakes the reader.
func (r *reader) sleep() {
	r.polling = false
	r.control.setPolling(false)
	if r.ring.AvailableBytes() > 0 {
		r.ring.SetDeadline(time.Now())
		return
	}
	r.ring.SetDeadline(time.Time{})
}

// gap notes the event's sequence number and reports whether others are missing before
// it. That is a reason to check, not a proof: an event of an interrupt takes its number
// before the event that it interrupted.
func (r *reader) gap(ev *Event) bool {
	next, known := r.next[ev.CPU]
	if ev.Seq >= next {
		r.next[ev.CPU] = ev.Seq + 1
	}
	return known && ev.Seq > next
}

func (r *reader) newlyLost() (uint64, error) {
	r.suspect = false
	n, err := r.lost()
	if err != nil {
		return 0, err
	}
	delta := n - r.reported
	r.reported = n
	return delta, nil
}
