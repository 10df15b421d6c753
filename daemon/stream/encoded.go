//go:build linux

package stream

import (
	"runtime"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

const (
	recentLines = 2048
	maxLine     = 8 << 10 // bytes; a longer line is not shared
	turnRecords = 256
)

// encodedEvents holds the last events as they are sent, so that each is encoded once
// and not by each of a thousand readers. The reader that needs a line first makes it;
// without readers none is made.
type encodedEvents struct {
	lines [access.Whole + 1][recentLines]atomic.Pointer[line] // by how much the reader sees of command lines
}

// line is one event on the wire.
type line struct {
	seq  uint64
	text []byte // ends with a newline; never changed
}

// line is an event, with the time of a clock, as a caller may see it. Callers differ only in what
// they see of command lines: of one user, else it is made for each of them.
func (l *encodedEvents) line(k document.Clock, r *history.RecentEvent, c access.Caller) ([]byte, error) {
	if r.Subject != nil || r.Was != nil && r.WasUID != r.UID {
		return encode(k, r, c)
	}
	sight := access.Whole
	if r.Image != nil || r.Was != nil {
		sight = c.Sees(r.UID)
	}
	slot := &l.lines[sight][r.Seq%recentLines]
	held := slot.Load()
	if held != nil && held.seq == r.Seq {
		return held.text, nil
	}
	text, err := encode(k, r, c)
	// A reader that is behind does not replace a line that others still need.
	if err == nil && len(text) <= maxLine && (held == nil || held.seq < r.Seq) {
		slot.CompareAndSwap(held, &line{r.Seq, text})
	}
	return text, err
}

func encode(k document.Clock, r *history.RecentEvent, c access.Caller) ([]byte, error) {
	ev := document.Event(k, r.Seq, &r.Event, c)
	if r.Subject != nil {
		ev.Subject = document.ReadableSession(r.Subject, c)
	}
	return ev.MarshalJSON()
}

// turns are taken by readers of the events before they read and encode, and returned
// before they write: however many readers there are, only this many at once use a
// processor for it, and the registry gets another one. Each turn has its own memory.
type turns chan []history.RecentEvent

func newTurns() turns {
	t := make(turns, max(1, runtime.GOMAXPROCS(0)/2))
	for range cap(t) {
		t <- make([]history.RecentEvent, turnRecords)
	}
	return t
}
