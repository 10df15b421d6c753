//go:build linux

package system

import (
	"bytes"
	"os"
	"path/filepath"
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

// A look shows what no event reports: births outside of the sessions, what members use, and what was missed. After
// something happened, LooksAfter periods bring one each, then only each LooksApart-th does.
const (
	LooksAfter = 4
	LooksApart = 8
)

// Quiet knows how long nothing has happened that the next look would show. Its zero value is for
// the first period.
type Quiet struct {
	heard   uint64
	born    []byte
	periods int // without a new event or birth
}

// Due counts a period, and reports whether it brings a look. heard counts events, born is the
// result of Births.
func (q *Quiet) Due(heard uint64, born []byte) bool {
	if heard != q.heard || !bytes.Equal(born, q.born) {
		q.heard, q.born, q.periods = heard, born, 0
	}
	q.periods++
	return q.periods <= LooksAfter || q.periods%LooksApart == 0
}

// Births is the number of tasks and the last PID of the host, which change when a process is born.
func Births(proc string) []byte {
	b, err := os.ReadFile(filepath.Join(proc, "loadavg"))
	if err != nil {
		return nil
	}
	_, tasks, _ := bytes.Cut(b, []byte{'/'}) // "0.20 0.18 0.12 1/80 11206"
	return tasks
}
