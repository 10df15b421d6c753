//go:build linux

package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	viewPeriod = 100 * time.Millisecond // the fastest that anybody can watch
	// What one turn in the registry's goroutine makes ready. Between two turns
	// others have theirs.
	viewProcesses = 512
	viewSessions  = 32
	// viewLooks bounds the processes of one turn that procfs is asked about.
	viewLooks = 64
)

// feed keeps the view up to date while somebody watches. Its cost is that of
// what changed, however many watch.
type feed struct {
	server *server
	view   *view

	mu      sync.Mutex
	readers int
	on      bool
	ready   chan struct{} // closed when the view is whole
	wanted  chan struct{}

	stale map[tracer.SessionID]bool // changed since the view took it; nil: nobody watches; of the registry's goroutine

	// Of the goroutine that runs run.
	batch   batch
	changes lineage.Changes
	scopes  map[tracer.SessionID]*access.Scope
	looked  map[lineage.ID]commandLine
}

// commandLine is what procfs said of a process whose exec nobody saw.
type commandLine struct {
	exe       string
	argv      []string
	truncated bool
}

func newFeed(s *server) *feed {
	return &feed{server: s, view: newView(), wanted: make(chan struct{}, 1)}
}

// join begins to read the view: from it on the feed runs until leave. False:
// the reader or the daemon left before the view was ready.
func (f *feed) join(ctx context.Context) bool {
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
	case <-f.server.stopping:
	case <-f.server.registry.Done():
	}
	f.leave()
	return false
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers--
}

// idle ends the feed's work if nobody reads.
func (f *feed) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = f.readers > 0
	return !f.on
}

// run feeds the view whenever somebody watches, until ctx is done.
func (f *feed) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wanted:
		}
		f.watched(ctx)
	}
}

// watched is one time in which somebody watches.
func (f *feed) watched(ctx context.Context) {
	o := f.server.registry
	f.scopes, f.looked = make(map[tracer.SessionID]*access.Scope), make(map[lineage.ID]commandLine)
	if o.Read(func(v registry.View) { f.track(v, true) }) != nil {
		return
	}
	tick := time.NewTicker(viewPeriod)
	defer tick.Stop()
	for {
		for f.batch.more = true; f.batch.more; {
			if o.Read(func(v registry.View) { f.turn(v) }) != nil {
				return
			}
			f.look()
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
		case <-tick.C:
		}
		if f.idle() {
			break
		}
	}
	_ = o.Read(func(v registry.View) { f.track(v, false) })
	f.view.publish(&batch{whole: true})
}

// track begins to note what changes, or stops.
func (f *feed) track(v registry.View, on bool) {
	v.Track(on)
	f.stale = nil
	if on {
		f.allChanged(v)
	}
}

func (f *feed) allChanged(v registry.View) {
	f.stale = make(map[tracer.SessionID]bool)
	for x := range v.Sessions() {
		f.stale[x.ID()] = true
	}
}

// changed notes that what a session looks like may be new, and so of those that
// it is nested in.
func (f *feed) changed(v registry.View, id tracer.SessionID) {
	if f.stale == nil {
		return
	}
	for range registry.MaxDepth {
		if id == 0 {
			return
		}
		f.stale[id] = true
		x := v.Session(id)
		if x == nil {
			return
		}
		id = x.Info().Parent
	}
}

// turn makes a batch ready, in the registry's goroutine.
func (f *feed) turn(v registry.View) {
	b := &f.batch
	clear(b.updates)
	b.time, b.updates, b.sessions, b.closed = f.server.clock.Boottime(), b.updates[:0], b.sessions[:0], b.closed[:0]
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
	if b.whole { // the sessions are void with the rest
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
	b.status = f.server.watchStatus(v)
}

// self reads what root may: the view is redacted for each reader.
var self = access.Caller{}

// scope gives the one scope of a session.
func (f *feed) scope(v registry.View, id tracer.SessionID) *access.Scope {
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

// watchStatus is what a status line shows.
func (s *server) watchStatus(v registry.View) api.WatchStatus {
	return api.WatchStatus{
		Level: s.kernel.Features().Level, Mode: s.rules.Mode(), Degraded: s.degradations(v), Lost: v.Lost(), Forks: v.Forks(),
		Live: v.Graph().Stats().Live, Breaker: s.rules.BreakerState(),
		SelfCheck: s.selfCheck.Result(),
	}
}

// look asks procfs for the command lines that no exec told: of what ran before
// the daemon did. It is for display, and dropped unless the identity is
// confirmed after it.
func (f *feed) look() {
	for _, id := range f.batch.forgot {
		delete(f.looked, id)
	}
	asked := 0
	for i := range f.batch.updates {
		u := &f.batch.updates[i]
		if u.doc.Argv != nil || u.doc.Exe != "" {
			delete(f.looked, u.id)
			continue
		}
		line, ok := f.looked[u.id]
		if !ok && u.doc.State == api.StateLive && asked < viewLooks {
			asked++
			line = f.ask(u.id)
			f.looked[u.id] = line
		}
		u.doc.Exe, u.doc.Argv, u.doc.ArgvTruncated = line.exe, line.argv, line.truncated
	}
}

func (f *feed) ask(id lineage.ID) (line commandLine) {
	s := f.server
	line.exe = s.proc.Link(id.PID, "exe")
	line.argv, line.truncated = broker.Argv(s.proc, id.PID)
	if now, err := s.kernel.Identify(id.PID); err != nil || now != id {
		return commandLine{}
	}
	return line
}
