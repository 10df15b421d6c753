//go:build linux

package history

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	RingSize = 32768    // events that the daemon's ring holds
	Bytes    = 16 << 20 // of their command lines; users share one half, and of a user with too many only the programs are kept, in the other
	block    = 1024     // events that are allocated together
)

// RecentEvent is one event as readers get it. Its slices are never changed again.
type RecentEvent struct {
	Seq uint64
	tracer.Event
	About   *About       // nil: its session is unknown
	Subject *api.Session // of an event of a session: as root may read it, after the event
}

// About is what readers of a session's events have to know of it. It is attached to
// each of them, so that readers need not ask the registry. Except for Over it never
// changes.
type About struct {
	Scope access.Scope
	Over  atomic.Bool // the session's last event has been added
}

// Of is made with the first event of a session that readers get. It is called in the
// registry's goroutine.
func (r *Ring) Of(v registry.View, s *registry.Session) *About {
	a := r.sessions[s.ID()]
	if a == nil {
		a = &About{Scope: v.Scope(s)}
		r.sessions[s.ID()] = a
	}
	return a
}

// Hooks get the events that readers get.
func (r *Ring) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Published: r.publish,
		Closed:    func(v registry.View, s *registry.Session) { r.Of(v, s).Over.Store(true) },
		Forgotten: func(_ registry.View, s *registry.Session) { delete(r.sessions, s.ID()) },
	}
}

func (r *Ring) publish(v registry.View, events []tracer.Event) {
	r.add(events, func(ev *tracer.Event) (*About, *api.Session) {
		s := v.Session(ev.Session)
		switch {
		case s == nil:
			return nil, nil
		case ev.Type != tracer.EventSession:
			return r.Of(v, s), nil
		}
		d := v.Document(s, access.Caller{})
		d.State, d.EndReason = api.SessionState(ev.State.String()), ev.Cause.String()
		if ev.State != tracer.StateEmpty { // the next event of the batch may be its end
			d.Ended, d.Verdict = nil, ""
		}
		return r.Of(v, s), &d
	})
}

// Ring is the recent events, one for all readers: each reader has a cursor into it and
// no queue of its own. It has one writer.
type Ring struct {
	Readers  atomic.Int32                // how many readers there are
	sessions map[tracer.SessionID]*About // of the registry's goroutine

	mu    sync.Mutex
	size  uint64          // records that it holds
	buf   [][]RecentEvent // in blocks; nil: not used yet
	first uint64          // oldest sequence number that is still here
	next  uint64          // the next number
	began uint64          // the first number of this ring; it does not change
	texts map[*lineage.Image]recentText
	share *memory.Share // of texts
	wake  chan struct{} // closed when something was added
	added chan struct{} // wakes Pace
}

// recentText is a command line that events have.
type recentText struct {
	events int
	uid    uint32 // that its memory is booked for
}

// NewRing starts at seq. Sequence numbers continue across daemons: they start at the
// boottime in microseconds, which no daemon's count catches up with, so a reader that
// resumes at another daemon sees a gap and not a repetition. Memory is allocated with
// the events: most hosts have few.
func NewRing(seq uint64, size int) *Ring {
	return &Ring{
		sessions: make(map[tracer.SessionID]*About), texts: make(map[*lineage.Image]recentText),
		share: memory.NewShare(Bytes / 2),
		size:  uint64(size), buf: make([][]RecentEvent, (size+block-1)/block),
		first: seq, next: seq, began: seq, wake: make(chan struct{}), added: make(chan struct{}, 1),
	}
}

// slot is where the event of that number is, or will be.
func (r *Ring) slot(seq uint64) *RecentEvent {
	i := seq % r.size
	if r.buf[i/block] == nil {
		r.buf[i/block] = make([]RecentEvent, min(block, r.size))
	}
	return &r.buf[i/block][i%block]
}

// add appends events, in order, and gives them their numbers; of returns what is known
// of their sessions. It copies nothing but the events themselves. Its cost does not
// depend on the readers: Pace wakes them.
func (r *Ring) add(events []tracer.Event, of func(*tracer.Event) (*About, *api.Session)) {
	if len(events) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		ev := &events[i]
		ev.Image, ev.Was = r.hold(ev.UID, ev.Image), r.hold(ev.WasUID, ev.Was)
		for r.next-r.first == r.size || r.share.Used() > Bytes && r.first < r.next {
			old := r.slot(r.first)
			r.drop(old.Image)
			r.drop(old.Was)
			r.share.Book(room(old.Subject, -1))
			*old = RecentEvent{}
			r.first++
		}
		slot := r.slot(r.next)
		slot.Seq, slot.Event = r.next, *ev
		slot.About, slot.Subject = of(ev)
		if d := slot.Subject; d != nil && !r.share.Take(room(d, 1)) {
			d.Root = &api.Process{Ref: d.Root.Ref, Comm: d.Root.Comm, UID: d.Root.UID,
				Started: d.Root.Started, ArgvTruncated: true}
			d.Ports, d.Delegated = nil, nil
		}
		r.next++
	}
	system.Offer(r.added, struct{}{})
}

// hold counts a command line once for all events that have it.
func (r *Ring) hold(uid uint32, img *lineage.Image) *lineage.Image {
	if img == nil {
		return nil
	}
	x := r.texts[img]
	if x.events == 0 && !r.share.Take(uid, img.Size()) {
		if img = img.Bare(); r.texts[img].events == 0 {
			r.share.Book(uid, img.Size())
		}
		x = r.texts[img]
	}
	if x.events == 0 {
		x.uid = uid
	}
	x.events++
	r.texts[img] = x
	return img
}

func (r *Ring) drop(img *lineage.Image) {
	if img == nil {
		return
	}
	x := r.texts[img]
	if x.events--; x.events > 0 {
		r.texts[img] = x
		return
	}
	delete(r.texts, img)
	r.share.Book(x.uid, -img.Size())
}

// room is how much of a session, and of whose, an event of it keeps: what members make long, times that.
func room(d *api.Session, times int) (uid uint32, bytes int) {
	if d == nil || d.Root == nil {
		return 0, 0
	}
	n := memory.ArgvSize(d.Root.Argv) + memory.ArgvSize(d.Root.FirstArgv) + 8*len(d.Ports) + 1536*len(d.Delegated) // whose command lines are short
	return uint32(d.UID), times * n
}

// Pace wakes the readers after something was added: all at once, and only after it has
// gathered what comes with it, so that each gets one write for many events.
func (r *Ring) Pace(ctx context.Context, gather time.Duration) {
	system.Each(ctx, r.added, func(struct{}) {
		select {
		case <-ctx.Done():
		case <-time.After(gather):
			r.wakeUp()
		}
	})
}

func (r *Ring) wakeUp() {
	r.mu.Lock()
	wake := r.wake
	r.wake = make(chan struct{})
	r.mu.Unlock()
	close(wake)
}

// Began is the first sequence number of this ring.
func (r *Ring) Began() uint64 { return r.began }

// End is the sequence number that the next event will get.
func (r *Ring) End() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// Read copies events from seq on into buf. first is the sequence number of the oldest
// event from seq on that the ring has: if it is greater than seq, those between are
// lost. wake is closed when there is more.
func (r *Ring) Read(seq uint64, buf []RecentEvent) (n int, first uint64, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = max(seq, r.first)
	for ; n < len(buf) && first+uint64(n) < r.next; n++ {
		buf[n] = *r.slot(first + uint64(n))
	}
	return n, first, r.wake
}
