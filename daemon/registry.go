//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// How many sessions that are over are remembered, and how many processes,
// ports and locks their receipts may name together.
const (
	maxEnded    = 1000
	maxOutcomes = 65536
)

// errStopping: the registry takes no more requests.
var errStopping = errors.New("the daemon is stopping")

// Registry holds the graph and the sessions. Its fields belong to the goroutine
// that runs run; everybody else goes through do.
type Registry struct {
	kernel   kernel
	enforcer *enforcer.Enforcer
	log      zerolog.Logger
	clock    clock
	began    uint64 // boottime
	proc     procfs.FS
	holds    *resources.Reader

	calls chan func()
	reads chan func()   // of callers who can wait: see read
	done  chan struct{} // closed when run has returned
	inbox *inbox
	hooks []*Hooks

	graph    *lineage.Graph
	sessions map[tracer.SessionID]*Session
	nested   map[tracer.SessionID][]tracer.SessionID // directly
	ended    []*Session                              // oldest first
	outcomes int                                     // that the receipts of ended name
	gone     []tracer.SessionID
	canaries []hidden // oldest first
	batch    []tracer.Event
	watch    map[tracer.SessionID]bool // scratch of apply

	lost     uint64 // events, since the daemon began
	heard    uint64 // events that were not, for who waits for more
	forks    uint64 // of members, since the daemon began
	misses   map[string]uint64
	counters map[string]uint64
	degraded []string
	resync   chan resyncCause // asks the sampler for a resync now
	doubts   []doubt          // that the next look confirms
	untold   uint64           // changes that doubts had no room for
	doubted  chan struct{}    // there are some

	meter meter

	memories map[tracer.SessionID]json.RawMessage // of sessions that are older than the daemon, until it meets them
	hidden   func(tracer.SessionInfo) bool        // whether a session is a canary's

	ending     chan tracer.SessionID // asks for what it holds now
	portsWait  func() time.Duration
	heldPeriod time.Duration
}

func newRegistry(k kernel, e *enforcer.Enforcer, c clock, proc procfs.FS, log zerolog.Logger) *Registry {
	return &Registry{
		kernel: k, enforcer: e, log: log, clock: c, began: c.boottime(),
		proc: proc, holds: resources.New(string(proc), k.Identify),
		ending: make(chan tracer.SessionID, 64), portsWait: policy.Default().Wait.Ports.Std, heldPeriod: heldPeriod,
		calls: make(chan func()), reads: make(chan func()), done: make(chan struct{}),
		inbox:    newInbox(k),
		graph:    lineage.New(lineage.Options{}),
		sessions: make(map[tracer.SessionID]*Session),
		watch:    make(map[tracer.SessionID]bool), meter: newMeter(),
		resync:   make(chan resyncCause, 1),
		doubted:  make(chan struct{}, 1),
		nested:   make(map[tracer.SessionID][]tracer.SessionID),
		memories: make(map[tracer.SessionID]json.RawMessage), hidden: isCanary,
	}
}

// run is the goroutine that has them.
func (o *Registry) run(ctx context.Context) {
	defer close(o.done)
	for {
		var f func()
		select {
		case <-ctx.Done():
			return
		case f = <-o.calls:
		default:
			select {
			case <-ctx.Done():
				return
			case <-o.inbox.ready:
			case f = <-o.calls:
			case f = <-o.reads:
			}
		}
		// What the kernel said before the request was made comes first.
		o.drain()
		if f != nil {
			f()
		}
	}
}

// do runs f in the registry's goroutine and waits for it. f must not block.
func (o *Registry) do(f func()) error { return o.queue(o.calls, f) }

// read is do for a request that changes nothing. Unless root asks, all that is
// done goes first: many who read must not keep an end waiting.
func (o *Registry) read(c access.Caller, f func()) error {
	if c.Root() {
		return o.do(f)
	}
	return o.queue(o.reads, f)
}

func (o *Registry) queue(calls chan<- func(), f func()) error {
	ran := make(chan struct{})
	select {
	case calls <- func() { defer close(ran); f() }:
	case <-o.done:
		return errStopping
	}
	select {
	case <-ran:
		return nil
	case <-o.done:
		return errStopping
	}
}

func (o *Registry) drain() {
	o.batch = o.inbox.take(o.batch)
	if len(o.batch) == 0 {
		return
	}
	o.apply(o.batch)
	clear(o.batch)
}

// apply takes a batch of events into graph, sessions and ring, in their order.
func (o *Registry) apply(batch []tracer.Event) {
	o.heard += uint64(len(batch))
	hidden := false
	for i := range batch {
		ev := &batch[i]
		s := o.sessionOf(ev.Session)
		if s == nil {
			if h := o.hides(ev.Session); h != nil {
				hidden = true
				if h.over {
					continue
				}
			}
		}
		switch ev.Type {
		case tracer.EventLost:
			o.lost += ev.Count
			o.askResync(causeLost)
			continue
		case tracer.EventSession:
			if s != nil {
				o.sessionEvent(s, ev)
			}
			continue
		case tracer.EventBirth:
			if s != nil && ev.Evidence == tracer.EvidenceFork {
				o.forks++
				o.notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Forked })
			}
		case tracer.EventExec:
			if s != nil {
				o.notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Execed })
			}
		case tracer.EventExit:
			if s != nil {
				o.died(s, ev)
			}
			o.nameExit(ev)
		}
		le := graphEvent(ev)
		o.graph.Apply(&le)
	}
	if hidden {
		batch = slices.DeleteFunc(batch, func(ev tracer.Event) bool { return o.hides(ev.Session) != nil })
	}
	o.meter.told(batch)
	o.publish(batch...)
	for id := range o.watch {
		o.enforcer.Watch(id)
	}
	clear(o.watch)
}

// nameExit gives an exit the comm that its event does not carry.
func (o *Registry) nameExit(ev *tracer.Event) {
	if comm, ok := o.graph.Comm(ev.Process); ok {
		ev.Comm = comm
	}
}

// askResync asks for a look at the kernel now. What is asked for while a look
// waits is that look's.
func (o *Registry) askResync(why resyncCause) {
	select {
	case o.resync <- why:
	default:
	}
}

// clock tells the time: CLOCK_MONOTONIC, boottime in ns, and wall time for it.
type clock struct {
	monotonic func() time.Duration
	boottime  func() uint64
	document.Clock
}
