//go:build linux

package registry

import (
	"context"
	"reflect"
	"runtime"

	"github.com/lineage-ebpf/lineage/tracer"
)

// loop is how calls and events reach the registry's goroutine.
type loop struct {
	calls chan func()
	reads chan func()   // of callers that can wait: see ReadLast
	done  chan struct{} // closed when Run has returned
	inbox *inbox
	batch []tracer.Event
	run   uintptr // where the code of Run begins
}

func newLoop(k Kernel) loop {
	return loop{
		calls: make(chan func()), reads: make(chan func()), done: make(chan struct{}), inbox: newInbox(k),
		run: reflect.ValueOf((*Registry).Run).Pointer(),
	}
}

// Done is closed when Run has returned.
func (l *loop) Done() <-chan struct{} { return l.done }

// Ingest reads events until the kernel is closed for reading.
func (l *loop) Ingest() error { return l.inbox.ingest() }

// CloseIngest ends Ingest even if it waits for Run.
func (l *loop) CloseIngest() { l.inbox.close() }

// CatchUp waits until the events that the kernel had sent before are applied, and at
// the latest until ctx is done.
func (l *loop) CatchUp(ctx context.Context) { l.inbox.flush.wait(ctx) }

// do is Read for the registry itself.
func (l *loop) do(f func()) error { return l.queue(l.calls, f) }

// queue hands a call to Run and waits for it. A call from inside of another one, or of
// a hook, would wait forever: that caller has a View already.
func (l *loop) queue(calls chan<- func(), f func()) error {
	ran := make(chan struct{})
	call := func() { defer close(ran); f() }
	select {
	case calls <- call:
	default: // Run is busy: perhaps with this caller
		if l.inRun() {
			panic("registry: Read or Update inside of a call or a hook")
		}
		select {
		case calls <- call:
		case <-l.done:
			return ErrStopping
		}
	}
	select {
	case <-ran:
		return nil
	case <-l.done:
		return ErrStopping
	}
}

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
