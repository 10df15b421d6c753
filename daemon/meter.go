//go:build linux

package daemon

import (
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// meter is what the owner counts for the metrics since the daemon began. Only
// the owner's goroutine has it.
type meter struct {
	events  [len(eventNames)]uint64 // by type
	resyncs map[resyncCause]uint64
	ends    map[ended]uint64
	took    spread
}

// ended is how a session went, by its first verdict.
type ended struct{ reason, verdict string }

func newMeter() meter {
	return meter{resyncs: make(map[resyncCause]uint64), ends: make(map[ended]uint64)}
}

// told counts events that readers get.
func (m *meter) told(events []tracer.Event) {
	for i := range events {
		if t := int(events[i].Type); t < len(m.events) {
			m.events[t]++
		}
	}
}

// over counts the end of a session.
func (m *meter) over(reason, verdict string, took time.Duration) {
	m.ends[ended{reason, verdict}]++
	m.took.add(took.Seconds())
}

// endBuckets are the upper bounds of the buckets of end durations, in seconds:
// from what the kernel needs for a few members to the longest grace.
var endBuckets = [...]float64{0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 600}

// spread is a histogram over endBuckets.
type spread struct {
	count   uint64
	sum     float64
	buckets [len(endBuckets)]uint64 // cumulative
}

func (s *spread) add(v float64) {
	s.count++
	s.sum += v
	for i := len(endBuckets) - 1; i >= 0 && v <= endBuckets[i]; i-- {
		s.buckets[i]++
	}
}
