//go:build linux

package system

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
)

// A look shows what no event reports: births outside of the sessions, what members use, and what
// was missed. After something happened, LooksAfter periods bring one each, because a new process is
// looked at several times. Then only each LooksApart-th does, until something happens again.
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

// Sleep is for work that has nothing to do for a while. Its zero value is awake.
type Sleep struct {
	periods int         // asleep, 0: awake
	woken   atomic.Bool // since
}

// Wake may be called from any goroutine.
func (s *Sleep) Wake() { s.woken.Store(true) }

// Set begins or ends the sleep.
func (s *Sleep) Set(asleep bool) {
	if s.periods = 0; asleep {
		s.periods = 1
	}
}

// Awake counts a period, and reports whether to work in it: awake in each, asleep in each
// LooksApart-th.
func (s *Sleep) Awake() bool {
	if s.woken.Swap(false) {
		s.periods = 0
	}
	if s.periods == 0 {
		return true
	}
	s.periods++
	return s.periods%LooksApart == 0
}
