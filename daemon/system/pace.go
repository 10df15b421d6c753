//go:build linux

package system

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	heard       uint64
	tasks, last int // of the host: how many, and the last PID given
	periods     int // without a new event or birth
}

// Due counts a period, and reports whether it brings a look. heard counts events; births are those of the host of which
// one may still live.
func (q *Quiet) Due(heard uint64, proc string) bool {
	var tasks, last int
	var load [64]byte
	fd, _ := unix.Open(filepath.Join(proc, "loadavg"), unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.Open wakes the runtime's poller
	n, _ := unix.Read(fd, load[:])
	unix.Close(fd)
	_, counts, _ := bytes.Cut(load[:max(n, 0)], []byte{'/'}) // "0.20 0.18 0.12 1/80 11206"
	_, _ = fmt.Sscan(string(counts), &tasks, &last)
	if heard != q.heard || tasks > q.tasks || born(proc, q.last, last) {
		q.periods = 0
	}
	q.heard, q.tasks, q.last = heard, tasks, last
	q.periods++
	return q.periods <= LooksAfter || q.periods%LooksApart == 0
}

// born reports whether a task that got one of the PIDs after this one may live. More than fewBirths are not looked up.
func born(proc string, after, last int) bool {
	if last < after || last-after > fewBirths {
		return true
	}
	for pid := after + 1; pid <= last; pid++ {
		if _, err := os.Lstat(filepath.Join(proc, strconv.Itoa(pid))); err == nil {
			return true
		}
	}
	return false
}

const fewBirths = 64
