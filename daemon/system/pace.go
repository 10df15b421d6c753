//go:build linux

package system

import (
	"bytes"
	"context"
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

// Each calls f with what comes from a channel, one after the other, until ctx is done.
func Each[T any](ctx context.Context, from <-chan T, f func(T)) {
	for {
		select {
		case <-ctx.Done():
			return
		case v := <-from:
			f(v)
		}
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

func ThreadTime() time.Duration { return Time(unix.CLOCK_THREAD_CPUTIME_ID) }

// Time is the time of one of the kernel's clocks, all of which exist since 2.6.39.
func Time(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic(err)
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
