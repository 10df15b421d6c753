package procfs

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic that was caught, with the stack at that point. Its receiver may panic
// with it again.
type Panic struct {
	Value any
	Stack []byte
}

// Error is what the runtime prints of a Panic that is not caught again.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// CatchPanic calls f, and returns its panic if it panics. A Panic that f has got from another
// goroutine keeps its first stack.
func CatchPanic(f func()) (p *Panic) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Panic:
			p = v
		default:
			p = &Panic{v, debug.Stack()}
		}
	}()
	f()
	return nil
}
