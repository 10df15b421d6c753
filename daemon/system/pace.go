//go:build linux

package system

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Offer sends to a goroutine that works in the background, unless its channel is full: false.
func Offer[T any](to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	default:
		return false
	}
}

// PacedWork is repeated work of one goroutine. After each turn it rests, Share times as long as it
// used a CPU, and at least Least.
type PacedWork struct {
	Least time.Duration
	Share int
	// Elsewhere is the CPU time that the work has used in other threads so far; nil: none.
	Elsewhere func() time.Duration

	began time.Duration
}

// Begin and End are called in the same goroutine, which keeps its thread in between.
func (w *PacedWork) Begin() {
	runtime.LockOSThread()
	w.began = w.used()
}

// End returns how long to rest.
func (w *PacedWork) End() time.Duration {
	rest := max(w.Least, time.Duration(w.Share)*(w.used()-w.began))
	runtime.UnlockOSThread()
	return rest
}

func (w *PacedWork) used() time.Duration {
	if w.Elsewhere == nil {
		return ThreadTime()
	}
	return ThreadTime() + w.Elsewhere()
}

// ThreadTime is the CPU time of this thread.
func ThreadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // the clock exists since 2.6.12
	}
	return time.Duration(ts.Nano())
}
