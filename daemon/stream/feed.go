//go:build linux

package stream

import (
	"context"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	viewPeriod = 100 * time.Millisecond // the fastest rate for a reader
	// The most that one turn in the registry's goroutine prepares. Between two turns
	// others have theirs.
	viewProcesses = 512
	viewSessions  = 32
)

type FeedOptions struct {
	Lines
	Status func(registry.View) api.WatchStatus // what a status line shows
}

// Feed keeps the view up to date while it has readers. Its cost depends on what
// changed, not on the number of readers.
type Feed struct {
	o    FeedOptions
	view *view

	mu      sync.Mutex
	readers int
	on      bool
	ready   chan struct{} // closed when the view is complete
	wanted  chan struct{}

	stale map[tracer.SessionID]bool // changed since the view got them; nil: no readers; of the registry's goroutine

	// These belong to the goroutine that runs Run.
	batch   batch
	changes lineage.Changes
	scopes  map[tracer.SessionID]*access.Scope
}

// NewFeed makes a feed; attach its hooks.
func NewFeed(o FeedOptions) *Feed {
	return &Feed{o: o, view: newView(), wanted: make(chan struct{}, 1)}
}

func (f *Feed) Hooks() *registry.Hooks { return &registry.Hooks{Changed: f.changed} }

// join begins to read the view: from then on the feed runs until leave. False: the
// reader or the daemon left before the view was ready.
func (f *Feed) join(ctx context.Context) bool {
	f.mu.Lock()
	f.readers++
	if !f.on {
		f.on, f.ready = true, make(chan struct{})
		f.wanted <- struct{}{}
	}
	ready := f.ready
	f.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	case <-f.o.Stopping:
	case <-f.o.Registry.Done():
	}
	f.leave()
	return false
}

func (f *Feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers--
}

func (f *Feed) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = f.readers > 0
	return !f.on
}

// Run feeds the view while there are readers, until ctx is done.
func (f *Feed) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wanted:
		}
		f.watched(ctx)
	}
}

// watched feeds the view for as long as there are readers.
func (f *Feed) watched(ctx context.Context) {
	f.scopes = make(map[tracer.SessionID]*access.Scope)
	if f.o.Registry.Read(func(v registry.View) { f.track(v, true) }) != nil {
		return
	}
	tick := time.Tick(viewPeriod)
	for {
		for f.batch.more = true; f.batch.more; {
			if f.o.Registry.Read(func(v registry.View) { f.turn(v) }) != nil {
				return
			}
			f.view.publish(&f.batch)
		}
		f.mu.Lock()
		select {
		case <-f.ready:
		default:
			close(f.ready)
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if f.idle() {
			break
		}
	}
	if f.o.Registry.Read(func(v registry.View) { f.track(v, false) }) != nil {
		return
	}
	f.view.publish(&batch{whole: true})
}

func (f *Feed) track(v registry.View, on bool) {
	v.Track(on)
	f.stale = nil
	if on {
		f.allChanged(v)
	}
}

func (f *Feed) allChanged(v registry.View) {
	f.stale = make(map[tracer.SessionID]bool)
	for x := range v.Sessions() {
		f.stale[x.ID()] = true
	}
}

// changed notes that the documents of a session, and of those around it, may be
// different.
func (f *Feed) changed(v registry.View, id tracer.SessionID) {
	if f.stale == nil {
		return
	}
	for id := range v.Chain(id) {
		f.stale[id] = true
	}
}

// turn prepares a batch, in the registry's goroutine.
func (f *Feed) turn(v registry.View) {
	b := &f.batch
	clear(b.updates)
	b.time, b.updates, b.sessions, b.closed = f.o.Clock.Boottime(), b.updates[:0], b.sessions[:0], b.closed[:0]
	v.Take(viewProcesses, &f.changes)
	e := v.Encoder()
	b.forgot, b.whole, b.more = f.changes.Forgot, f.changes.Lost, f.changes.More
	for _, id := range f.changes.Changed {
		n, ok := v.Graph().Node(id)
		if !ok {
			continue
		}
		session := n.Session
		f.changed(v, session)
		b.updates = append(b.updates, update{
			id: id, under: n.Under, doc: e.Process(&n, self), scope: f.scope(v, session),
			present: !n.Ghost && (n.State == lineage.Live || n.State == lineage.Zombie), exited: n.Exited,
		})
	}
	if b.whole { // the sessions are invalid like the rest
		f.allChanged(v)
	}
	for id := range f.stale {
		if len(b.sessions) == viewSessions {
			b.more = true
			break
		}
		delete(f.stale, id)
		x := v.Session(id)
		if x == nil {
			delete(f.scopes, id)
			b.closed = append(b.closed, id)
			continue
		}
		v.Refresh(x)
		s := shownSession{id: id, doc: v.Document(x, self), scope: f.scope(v, id)}
		if x.Closed() {
			s.due = x.Emptied() + uint64(viewMemory)
		}
		b.sessions = append(b.sessions, s)
	}
	b.status = f.o.Status(v)
}

// self reads what root may read: the view is redacted for each reader.
var self = access.Caller{}

func (f *Feed) scope(v registry.View, id tracer.SessionID) *access.Scope {
	if sc := f.scopes[id]; sc != nil || id == 0 {
		return sc
	}
	x := v.Session(id)
	if x == nil {
		return nil
	}
	scope := v.Scope(x)
	f.scopes[id] = &scope
	return &scope
}
