//go:build linux

package pace

import (
	"bytes"
	"os"
	"path/filepath"
)

// A look shows what no event tells: who was born outside of the sessions, what members use, and
// what was missed. After something happened LooksAfter periods bring one each: a newborn process is
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

// Due counts a period, and reports whether it brings a look. heard counts events, born is what
// Births says.
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
