//go:build linux

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/sockets"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// How many ended sessions are remembered, and how many processes, ports and locks their
// receipts may name together.
const (
	MaxEnded    = 1000
	maxOutcomes = 65536
)

// ErrStopping means that the registry takes no more calls.
var ErrStopping = errors.New("the daemon is stopping")

// Kernel is what the registry needs of the tracer. Read is called from one goroutine,
// everything else from any.
type Kernel interface {
	document.Kernel
	enforcer.Kernel
	Features() tracer.Features
	Read(ev *tracer.Event) error
	Flush() error
	Lookup(pid uint32) (tracer.Entry, error)
	Sessions() ([]tracer.SessionInfo, error)
	Create(spec tracer.SessionSpec) (tracer.SessionID, error)
	Adopt(id tracer.SessionID) (int, error)
	Follow(from, id tracer.SessionID) (int, error)
	Move(p tracer.Identity, from, to tracer.SessionID) error
	Release(id tracer.SessionID) error
	Listeners(each func(*tracer.Event)) error
	Counters() (map[string]uint64, error)
	RecursionMisses() (map[string]uint64, error)
	OpenMissedAgents() (int, error)
}

// Clock tells the time: CLOCK_MONOTONIC, boottime in ns, and wall time for it.
type Clock struct {
	Monotonic func() time.Duration
	Boottime  func() uint64
	document.Clock
}

// Options of New.
type Options struct {
	Kernel   Kernel
	Enforcer *enforcer.Enforcer
	Clock    Clock
	Proc     procfs.FS
	Log      zerolog.Logger
	Graph    lineage.Options
	// Hidden reports whether a session, and everything in it, is not shown to any user.
	Hidden func(tracer.SessionInfo) bool
	// PortsWait is how long the receipt of an empty session waits for its ports.
	PortsWait func() time.Duration
	Period    time.Duration // between two looks
}

// Registry holds the graph and the sessions, in one goroutine: the comments on its fields
// are about that goroutine. Others call Read and Update, and features attach Hooks.
type Registry struct {
	host
	loop
	counts
	tracker
	looks sampler
	hooks []*Hooks

	graph     *lineage.Graph
	sessions  map[tracer.SessionID]*Session
	nested    map[tracer.SessionID][]tracer.SessionID // directly
	ended     []*Session                              // oldest first
	outcomes  int                                     // that the receipts of ended sessions name
	gone      []tracer.SessionID
	canaries  hiding
	listeners listeners
	memories  map[tracer.SessionID]json.RawMessage // of sessions that are older than the daemon, until it meets them
	watch     map[tracer.SessionID]bool            // scratch of apply

	doubts  []doubt       // reported after a pause, unless their events come
	untold  uint64        // changes that doubts had no room for
	doubted chan struct{} // there are some
}

// host is what the registry depends on.
type host struct {
	kernel   Kernel
	enforcer *enforcer.Enforcer
	log      zerolog.Logger
	clock    Clock
	began    uint64 // boottime
	proc     procfs.FS
	hidden   func(tracer.SessionInfo) bool
}

// counts are totals since the daemon began.
type counts struct {
	lost     uint64 // events
	heard    uint64 // events that were not lost: they show whether more may come
	forks    uint64 // of members
	misses   map[string]uint64
	counters map[string]uint64
	degraded []string
	meter    Meter
}

// New makes a registry; Run is its goroutine.
func New(p Options) *Registry {
	r := &Registry{
		host: host{
			kernel: p.Kernel, enforcer: p.Enforcer, log: p.Log, clock: p.Clock, began: p.Clock.Boottime(), proc: p.Proc,
			hidden: p.Hidden,
		},
		loop:     newLoop(p.Kernel),
		counts:   counts{meter: newMeter()},
		tracker:  newTracker(&p),
		graph:    lineage.New(p.Graph),
		sessions: make(map[tracer.SessionID]*Session),
		nested:   make(map[tracer.SessionID][]tracer.SessionID),
		memories: make(map[tracer.SessionID]json.RawMessage),
		watch:    make(map[tracer.SessionID]bool),
		doubted:  make(chan struct{}, 1),
	}
	r.listeners = listeners{registry: r, open: make(map[uint64]*sockets.Socket)}
	r.looks = sampler{registry: r, period: p.Period, asked: make(chan Cause, 1), hurry: make(chan struct{}, 1)}
	if r.hidden == nil {
		r.hidden = func(tracer.SessionInfo) bool { return false }
	}
	return r
}

// view is the View of the registry's goroutine.
func (r *Registry) view() View { return View{r} }

// Attach adds features. It is called before Run.
func (r *Registry) Attach(hooks ...*Hooks) { r.hooks = append(r.hooks, hooks...) }

func (r *Registry) drain() {
	r.batch = r.inbox.take(r.batch)
	if len(r.batch) == 0 {
		return
	}
	r.apply(r.batch)
	clear(r.batch)
}

// apply applies a batch of events to graph, sessions and ring, in their order.
func (r *Registry) apply(batch []tracer.Event) {
	r.heard += uint64(len(batch))
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
		switch ev.Type {
		case tracer.EventLost:
			r.lost += ev.Count
			r.AskResync(CauseLost)
			continue
		case tracer.EventSession:
			if s != nil {
				r.sessionEvent(s, ev)
			}
			continue
		case tracer.EventBirth:
			if s != nil && ev.Evidence == tracer.EvidenceFork {
				r.forks++
				r.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Forked })
			}
		case tracer.EventExec:
			if s != nil {
				r.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Execed })
			}
		case tracer.EventExit:
			if s != nil {
				r.died(s, ev)
			}
			r.name(ev)
		case tracer.EventListen:
			if s != nil {
				r.listeners.begins(ev)
			}
			r.name(ev)
			continue
		case tracer.EventUnlisten:
			r.listeners.ends(ev)
			r.name(ev)
			continue
		case tracer.EventReaped:
			r.name(ev)
		}
		le := graphEvent(ev)
		r.graph.Apply(&le)
	}
	if hidden {
		batch = slices.DeleteFunc(batch, func(ev tracer.Event) bool { return r.canaries.find(ev.Session) != nil })
	}
	for i := range batch {
		if ev := &batch[i]; ev.Type != tracer.EventMark { // a mark event carries the claim of one call
			ev.Claim, _ = r.graph.Claim(ev.Process)
		}
	}
	r.meter.told(batch)
	r.view().publish(batch...)
	for id := range r.watch {
		r.enforcer.Watch(id)
	}
	clear(r.watch)
}

// name gives an event the comm that it does not carry.
func (r *Registry) name(ev *tracer.Event) {
	if comm, ok := r.graph.Comm(ev.Process); ok {
		ev.Comm = comm
	}
}

// Run is the goroutine that owns graph and sessions, until ctx is done.
func (r *Registry) Run(ctx context.Context) {
	defer close(r.done)
	for {
		var f func()
		select {
		case <-ctx.Done():
			return
		case f = <-r.calls:
		default:
			select {
			case <-ctx.Done():
				return
			case <-r.inbox.ready:
			case f = <-r.calls:
			case f = <-r.reads:
			}
		}
		// Events that the kernel sent before the request are applied first.
		r.drain()
		if f != nil {
			f()
		}
	}
}

// Read calls f in the registry's goroutine and waits for it. f must not block.
func (r *Registry) Read(f func(View)) error {
	return r.queue(r.calls, func() { f(r.view()) })
}

// ReadLast is Read for a caller that can wait: all other calls go first. Many readers
// must not delay an end.
func (r *Registry) ReadLast(f func(View)) error {
	return r.queue(r.reads, func() { f(r.view()) })
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
	return r.queue(r.calls, func() { f(Tx{r.view()}) })
}
