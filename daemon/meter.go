//go:build linux

package daemon

import (
	"time"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/tracer"
)

// meter is what the registry counts for the metrics since the daemon began. Only
// the registry's goroutine has it.
type meter struct {
	events  [len(document.EventNames)]uint64 // by type
	resyncs map[resyncCause]uint64
	ends    map[ended]uint64
	took    metrics.Durations
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
	m.took.Add(took.Seconds())
}
