//go:build linux

package registry

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// loop is how calls and events reach the registry's goroutine, and how panics leave it.
type loop struct {
	calls  chan call
	reads  chan call     // of callers that can wait: see ReadLast
	done   chan struct{} // closed when Run has returned
	failed chan error    // why the daemon has to stop
	inbox  *inbox
	batch  []tracer.Event
	run    uintptr // where the code of Run begins
	// changing: the present call changes the state, which a panic leaves half changed.
	changing bool
}

type call struct {
	f       func()
	changes bool
	ran     chan<- *procfs.Panic
}

func newLoop(k Kernel) loop {
	return loop{
		calls: make(chan call), reads: make(chan call), done: make(chan struct{}),
		failed: make(chan error, 1), inbox: newInbox(k),
		run: reflect.ValueOf((*Registry).Run).Pointer(),
	}
}

// queue hands a call to Run and waits for it. A call from inside of another one, or of
// a hook, would wait forever: that caller has a View already. If f panics, the caller
// does.
func (l *loop) queue(calls chan<- call, changes bool, f func()) error {
	ran := make(chan *procfs.Panic, 1)
	c := call{f, changes, ran}
	select {
	case calls <- c:
	default: // Run is busy: perhaps with this caller
		if l.inRun() {
			panic("registry: Read or Update inside of a call or a hook")
		}
		select {
		case calls <- c:
		case <-l.done:
			return ErrStopping
		}
	}
	var p *procfs.Panic
	select {
	case p = <-ran:
	case <-l.done:
		select {
		case p = <-ran:
		default:
			return ErrStopping
		}
	}
	if p != nil {
		panic(p)
	}
	return nil
}

// answer calls c. It reports whether the state is whole afterwards.
func (l *loop) answer(c call) bool {
	l.changing = c.changes
	p := procfs.CatchPanic(c.f)
	c.ran <- p
	if p != nil && l.changing {
		system.Offer(l.failed, fmt.Errorf("%w: %v", errPanic, p.Value))
		return false
	}
	return true
}

var errPanic = errors.New("a panic in the daemon; it has to start again")

// inRun reports whether this goroutine is Run's, by its stack.
func (l *loop) inRun() bool {
	var stack [64]uintptr
	for skip := 0; ; skip += len(stack) {
		n := runtime.Callers(skip, stack[:])
		for _, pc := range stack[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == l.run {
				return true
			}
		}
		if n < len(stack) {
			return false
		}
	}
}

// due reports whether the look of this period is needed. Without a session, or the kernel's record of one
// that is over, it is not, unless a feature wants it.
func (p *sampler) due() bool {
	r := p.registry
	var heard uint64
	want := WantNone
	err := r.Update(func(Tx) {
		heard, want = r.counts.heard, r.view().wanted()
		switch {
		case r.view().Live() > 0:
			want = max(want, p.pressing())
		case len(p.unreleased) > 0:
			want = max(want, WantSome)
		}
	})
	if p.asleep = want == WantNone; err != nil || want == WantNone {
		return false
	}
	return p.quiet.Due(heard, string(r.o.Proc)) || want == WantEach
}

// pressing is what looks live sessions want, in the registry's goroutine: one each period
// while a reader watches, and where only a look shows that the end of a session is due.
func (p *sampler) pressing() Want {
	if p.watched || p.registry.o.Kernel.Features().Level < 3 {
		return WantEach
	}
	now := p.registry.o.Clock.Boottime()
	for _, s := range p.registry.sessions {
		if !s.closed && (s.info.State != tracer.StateActive || s.info.Expires != 0 && s.info.Expires <= now) {
			return WantEach
		}
	}
	return WantSome
}

// HiddenName is the kernel's name of the sessions of self-checks, by which the next daemon
// recognises them too. No caller can give a session this name.
const HiddenName = "~canary"

// Hidden reports whether a session, and everything in it, is not shown to any user.
func Hidden(info tracer.SessionInfo) bool { return info.Name == HiddenName }

// maxHidden is how many hidden sessions are remembered, for their last events.
const maxHidden = 16

// A hidden session is not shown to any user: its events reach only the graph.
type hidden struct {
	id   tracer.SessionID
	over bool // the graph has forgotten it
}

// hiding has the hidden sessions, oldest first.
type hiding []hidden

func (h *hiding) add(id tracer.SessionID) {
	if len(*h) == maxHidden {
		*h = (*h)[1:]
	}
	*h = append(*h, hidden{id: id})
}

func (h hiding) find(id tracer.SessionID) *hidden {
	if i := slices.IndexFunc(h, func(x hidden) bool { return x.id == id }); i >= 0 {
		return &h[i]
	}
	return nil
}

// Meter is what the registry counts for the metrics, since the daemon began.
type Meter struct {
	Events  [len(document.EventNames)]uint64 // by type
	Resyncs map[Cause]uint64
	Ends    map[system.EndMetrics]uint64 // by their first verdict
	Took    prometheus.Histogram
}

func (m *Meter) published(events []tracer.Event) {
	for i := range events {
		if t := int(events[i].Type); t < len(m.Events) {
			m.Events[t]++
		}
	}
}
