//go:build linux

package daemon

import (
	"encoding/json"
	"runtime"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/tracer"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

const (
	recentLines = 2048
	maxLine     = 8 << 10 // bytes of a line that is worth sharing
	turnRecords = 256
)

// recent holds the last events as they are sent, so that one is encoded once
// and not by each of a thousand readers. Whoever needs a line first makes it;
// with nobody reading nothing is made.
type recent struct {
	shown, redacted [recentLines]atomic.Pointer[line]
}

// line is one event on the wire.
type line struct {
	seq  uint64
	text []byte // ends with a newline; never changed
}

// line is an event as a caller may see it. Command lines alone are not for
// everybody.
func (s *server) line(r *record, c access.Caller) ([]byte, error) {
	slots := &s.recent.shown
	if r.Type == tracer.EventExec && !c.MayReadArgv(r.UID) {
		slots = &s.recent.redacted
	}
	slot := &slots[r.seq%recentLines]
	held := slot.Load()
	if held != nil && held.seq == r.seq {
		return held.text, nil
	}
	text, err := json.Marshal(document.Event(s.clock.Clock, r.seq, &r.Event, c))
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	// A reader that is behind does not take the place of what others still need.
	if len(text) <= maxLine && (held == nil || held.seq < r.seq) {
		slot.CompareAndSwap(held, &line{r.seq, text})
	}
	return text, nil
}

// turns are what readers of the events take before they read and encode, and
// give back before they write: however many readers there are, this many at
// once use the processor for it, and the registry finds another one. Each comes
// with the memory that it takes.
type turns chan []record

func newTurns() turns {
	t := make(turns, max(1, runtime.GOMAXPROCS(0)/2))
	for range cap(t) {
		t <- make([]record, turnRecords)
	}
	return t
}
