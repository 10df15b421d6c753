//go:build linux

package stream

import (
	"runtime"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/tracer"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

const (
	recentLines = 2048
	maxLine     = 8 << 10 // bytes of a line that is worth sharing
	turnRecords = 256
)

// encodedEvents holds the last events as they are sent, so that one is encoded once
// and not by each of a thousand readers. Whoever needs a line first makes it;
// with nobody reading nothing is made.
type encodedEvents struct {
	lines [access.Whole + 1][recentLines]atomic.Pointer[line] // by what the reader sees of a command line
}

// line is one event on the wire.
type line struct {
	seq  uint64
	text []byte // ends with a newline; never changed
}

// line is an event at the time of a clock as a caller may see it. Callers differ in what they see of
// command lines alone.
func (l *encodedEvents) line(k document.Clock, r *recent.Event, c access.Caller) ([]byte, error) {
	sight := access.Whole
	if r.Type == tracer.EventExec {
		sight = c.Sees(r.UID)
	}
	slot := &l.lines[sight][r.Seq%recentLines]
	held := slot.Load()
	if held != nil && held.seq == r.Seq {
		return held.text, nil
	}
	ev := document.Event(k, r.Seq, &r.Event, c)
	if r.Type == tracer.EventSession && r.About != nil {
		ev.Name = r.About.Name
	}
	text, err := ev.MarshalJSON()
	if err != nil {
		return nil, err
	}
	// A reader that is behind does not take the place of what others still need.
	if len(text) <= maxLine && (held == nil || held.seq < r.Seq) {
		slot.CompareAndSwap(held, &line{r.Seq, text})
	}
	return text, nil
}

// turns are what readers of the events take before they read and encode, and
// give back before they write: however many readers there are, this many at
// once use the processor for it, and the registry finds another one. Each comes
// with the memory that it takes.
type turns chan []recent.Event

func newTurns() turns {
	t := make(turns, max(1, runtime.GOMAXPROCS(0)/2))
	for range cap(t) {
		t <- make([]recent.Event, turnRecords)
	}
	return t
}
