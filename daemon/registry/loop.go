//go:build linux

package registry

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"

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
	inbox  *Inbox
	batch  []tracer.Event
	run    uintptr // where the code of Run begins
	// changing: the present call changes the state, which a panic leaves half changed.
	changing bool
}

// call is a function that Run is to call.
type call struct {
	f       func()
	changes bool
	ran     chan<- *procfs.Panic
}

func newLoop(k Kernel) loop {
	return loop{
		calls: make(chan call), reads: make(chan call), done: make(chan struct{}), failed: make(chan error, 1), inbox: NewInbox(k),
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
		l.fail(fmt.Errorf("%w: %v", errPanic, p.Value))
		return false
	}
	return true
}

var errPanic = errors.New("a panic in the daemon; it has to start again")

// fail keeps the first error.
func (l *loop) fail(err error) {
	system.Offer(l.failed, err)
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
