//go:build linux

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

const (
	// MaxEnded is how many ended sessions are remembered.
	MaxEnded = 1000
	// maxReceipts bounds the memory of their receipts and of those of live sessions, in bytes.
	maxReceipts = 24 << 20
)

// ErrStopping means that the registry takes no more calls.
var ErrStopping = errors.New("the daemon is stopping")

// Kernel is what the registry, and what is attached to it, needs of the tracer. Read is called from one
// goroutine, everything else from any.
type Kernel interface {
	document.Kernel
	enforcer.Kernel
	Read(ev *tracer.Event) error
	Flush() error
	Features() tracer.Features
	Lookup(pid uint32) (tracer.Entry, error)
	Sessions() ([]tracer.SessionInfo, error)
	Create(spec tracer.SessionSpec) (tracer.SessionID, error)
	Adopt(id tracer.SessionID, uid uint32) (int, error)
	Follow(from, id tracer.SessionID) (int, error)
	Move(p tracer.Identity, from, to tracer.SessionID) error
	Dissolve(id tracer.SessionID) (int, error)
	Release(id tracer.SessionID) error
	Counters() (map[string]uint64, error)
	RecursionMisses() (map[string]uint64, error)
	WatchRuns() (tracer.Runs, error)
	OpenMissedAgents() (int, error)
	Listeners(each func(*tracer.Event)) error
	Deaths(each func(*tracer.Event)) error
	Halted() tracer.Halt
	SetTerms(id tracer.SessionID, spec tracer.SessionSpec) error
	SetAgents(agents []tracer.Agent) error
	SetTraces(on bool)
	SetJoins(commands, mains bool)
	SetClients(all map[tracer.Identity]tracer.SessionID) error
	SetGuard(g tracer.Guarding)
	SetCall(id tracer.Identity, call uint32, agent bool) error
	WatchMoves(id tracer.SessionID) error
	Enter(from, id tracer.SessionID, p, creator tracer.Identity, source tracer.Source) error
	Runs(p tracer.Identity, path string) (tracer.Running, error)
}

// Ground is what the features of the daemon stand on.
type Ground struct {
	Registry *Registry
	Kernel   Kernel
	Proc     procfs.FS
	Clock    Clock
	Log      zerolog.Logger
}

// Clock tells the time: CLOCK_MONOTONIC, boottime in ns, and wall time for it.
type Clock struct {
	Monotonic func() time.Duration
	Boottime  func() uint64
	document.Clock
}

type Options struct {
	Kernel   Kernel
	Enforcer *enforcer.Enforcer
	Clock    Clock
	Proc     procfs.FS
	Log      zerolog.Logger
	Graph    lineage.Options
	Period   time.Duration // between two looks
}

// Registry holds the graph and the sessions, in one goroutine: the comments on its fields
// are about that goroutine. Others call Read and Update, and features attach Hooks.
type Registry struct {
	o      Options
	began  uint64 // boottime
	loop   loop
	counts counts
	looks  sampler
	hooks  []*Hooks

	graph    *lineage.Graph
	sessions map[tracer.SessionID]*Session
	nested   map[tracer.SessionID][]tracer.SessionID // directly
	ended    *retained[*Session]                     // and the memory of all receipts
	queue    []*Place                                // of requests that wait for names, in order of arrival
	places   *memory.Share
	gone     []tracer.SessionID
	canaries hiding
	memories map[tracer.SessionID]json.RawMessage // of sessions that are older than the daemon, until it meets them
	unheard  map[tracer.SessionID]bool            // sessions of which events were not booked, until they are held
	watch    map[tracer.SessionID]bool            // scratch of apply

	doubts doubts
}

// counts are totals since the daemon began.
type counts struct {
	lost     uint64 // events
	lostAt   uint64 // boottime of the last loss, 0: none
	heard    uint64 // events that were not lost: they show whether more may come
	forks    uint64 // of members
	misses   map[string]uint64
	counters map[string]uint64
	degraded []string
	meter    Meter
}

func New(o Options) *Registry {
	r := &Registry{
		o:     o,
		began: o.Clock.Boottime(),
		loop:  newLoop(o.Kernel),
		counts: counts{meter: Meter{Resyncs: make(map[Cause]uint64),
			Ends: make(map[system.EndMetrics]uint64), Took: system.NewDurations()}},
		graph:    lineage.New(o.Graph),
		sessions: make(map[tracer.SessionID]*Session),
		nested:   make(map[tracer.SessionID][]tracer.SessionID),
		memories: make(map[tracer.SessionID]json.RawMessage),
		unheard:  make(map[tracer.SessionID]bool),
		watch:    make(map[tracer.SessionID]bool),
		places:   memory.NewShare(maxPlaces),
		doubts:   doubts{some: make(chan struct{}, 1)},
	}
	r.ended = newRetained(MaxEnded, maxReceipts, func(s *Session) {
		r.drop(s)
		r.graph.Forget(s.info.ID)
	})
	r.looks = sampler{
		registry: r, asked: make(chan Cause, 1), hurry: make(chan struct{}, 1), begun: make(chan struct{}, 1),
		unreleased: make(map[tracer.SessionID]bool),
	}
	return r
}

func (r *Registry) view() View { return View{r} }

// Attach adds features. It is called before Run.
func (r *Registry) Attach(hooks ...*Hooks) { r.hooks = append(r.hooks, hooks...) }

func (r *Registry) drain() {
	r.loop.batch = r.loop.inbox.take(r.loop.batch)
	if len(r.loop.batch) == 0 {
		return
	}
	r.apply(r.loop.batch)
	clear(r.loop.batch)
}

// apply applies a batch of events to graph, sessions and ring, in their order.
func (r *Registry) apply(batch []tracer.Event) {
	r.counts.heard += uint64(len(batch))
	hidden := false
	for i := range batch {
		ev := &batch[i]
		s := r.sessionOf(ev.Session)
		if s == nil {
			if h := r.canaries.find(ev.Session); h != nil {
				hidden = true
				if h.over {
					continue
				}
			}
		}
		if s != nil {
			s.lastEvent = max(s.lastEvent, ev.Time)
		}
		r.stirs(s, ev)
		switch ev.Type {
		case tracer.EventLost:
			r.missed(ev)
			continue
		case tracer.EventSession:
			if s != nil {
				r.sessionEvent(s, ev)
			}
			continue
		case tracer.EventBirth:
			switch {
			case s == nil:
			case ev.Evidence == tracer.EvidenceFork:
				r.counts.forks++
				r.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Forked })
			case ev.Evidence == tracer.EvidenceAdopted:
				for id := range r.view().Chain(s.info.ID) {
					r.joined(id, 1)
				}
			}
		case tracer.EventExec:
			if s != nil {
				r.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Execed })
			}
		case tracer.EventExit:
			if s != nil {
				r.died(s, ev)
			}
		case tracer.EventListen, tracer.EventUnlisten, tracer.EventMoved:
			r.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Told })
		}
		le := eventOf(ev)
		r.graph.Apply(&le)
		r.complete(ev, &le)
	}
	if hidden {
		batch = slices.DeleteFunc(batch,
			func(ev tracer.Event) bool { return r.canaries.find(ev.Session) != nil })
	}
	r.counts.meter.published(batch)
	r.view().publish(batch...)
	for id := range r.watch {
		r.o.Enforcer.Watch(id)
	}
	clear(r.watch)
}

// missed notes that events were lost: an exit may be among them.
func (r *Registry) missed(ev *tracer.Event) {
	r.counts.lost += ev.Count
	r.counts.lostAt = ev.Time
	for _, s := range r.sessions {
		if !s.closed && s.receipt.Gap() {
			r.view().Save(s) // the next daemon has to say so, too
		}
	}
	r.AskResync(CauseLost)
}

// complete gives an event, of which le was made, its process as it is now: the next event of the batch
// may change it.
func (r *Registry) complete(ev *tracer.Event, le *lineage.Event) {
	r.graph.Complete(le)
	ev.Evidence, ev.Source, ev.Creator, ev.Parent = le.Evidence, tracer.Source(le.Source), le.Creator, le.Parent
	ev.Looks, ev.Claim, ev.Signal, ev.After = le.Looks, le.Claim, le.Signal, le.After
	ev.ExitStatus, ev.Flags, ev.CPUTime, ev.MaxRSS = le.Status, tracer.EntryFlags(le.Flags), le.CPUTime, le.MaxRSS
	ev.Filename, ev.Argv, ev.ArgvTruncated, ev.Traceparent = nil, nil, false, nil
}

// Run is the goroutine that owns graph and sessions, until ctx is done. A panic in a call
// is the caller's. If the state may be half changed, Run returns: no caller gets a wrong
// answer, and the daemon starts again with what the kernel holds.
func (r *Registry) Run(ctx context.Context) {
	defer close(r.loop.done)
	for whole := true; whole; {
		var c call
		select {
		case <-ctx.Done():
			return
		case c = <-r.loop.calls:
		default:
			select {
			case <-ctx.Done():
				return
			case <-r.loop.inbox.ready:
			case c = <-r.loop.calls:
			case c = <-r.loop.reads:
			}
		}
		// Events that the kernel sent before the request are applied first.
		whole = r.Guard(r.drain)
		if whole && c.f != nil {
			whole = r.loop.answer(c)
		}
	}
}

func (r *Registry) Done() <-chan struct{} { return r.loop.done }

// Ingest reads events until the kernel is closed for reading.
func (r *Registry) Ingest() error { return r.loop.inbox.ingest() }

// CloseIngest ends Ingest even if it waits for Run.
func (r *Registry) CloseIngest() { r.loop.inbox.close() }

// CatchUp waits until the events that the kernel had sent before are applied, and at
// the latest until ctx is done.
func (r *Registry) CatchUp(ctx context.Context) { r.loop.inbox.flush.wait(ctx) }

// Fail reports an error after which the daemon must stop. Only the first one counts.
func (r *Registry) Fail(err error) { system.Offer(r.loop.failed, err) }

// Failed has the first error that was reported with Fail.
func (r *Registry) Failed() <-chan error { return r.loop.failed }

// Guard calls f, which no request waits for, and reports whether it returned. If it
// panics, the daemon stops in order. Each goroutine of the daemon is guarded.
func (r *Registry) Guard(f func()) bool {
	p := procfs.CatchPanic(f)
	if p == nil {
		return true
	}
	r.o.Log.Error().Any(system.KeyPanic, p.Value).Bytes(system.KeyStack, p.Stack).Msg("panic")
	r.Fail(fmt.Errorf("%w: %v", errPanic, p.Value))
	return false
}

// Read calls f in the registry's goroutine and waits for it. f must not block.
func (r *Registry) Read(f func(View)) error {
	return r.loop.queue(r.loop.calls, false, func() { f(r.view()) })
}

// ReadLast is Read for a caller that can wait: all other calls go first. Many readers
// must not delay an end.
func (r *Registry) ReadLast(f func(View)) error {
	return r.loop.queue(r.loop.reads, false, func() { f(r.view()) })
}

// ReadFor is Read for a caller: unless it is root, all pending changes go first.
func (r *Registry) ReadFor(c access.Caller, f func(View)) error {
	if c.Root() {
		return r.Read(f)
	}
	return c.RedactAfter(func() error { return r.ReadLast(f) })
}

// Update is Read for calls that change something.
func (r *Registry) Update(f func(Tx)) error {
	return r.loop.queue(r.loop.calls, true, func() { f(Tx{r.view()}) })
}

// Do is Update for a caller to whom it makes no difference that the daemon is stopping. It reports
// whether f was called.
func (r *Registry) Do(f func(Tx)) bool { return r.Update(f) == nil }
