//go:build linux

package registry

import (
	"time"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/prometheus/client_golang/prometheus"
)

// Meter is what the registry counts for the metrics, since the daemon began.
type Meter struct {
	Events  [len(document.EventNames)]uint64 // by type
	Resyncs map[Cause]uint64
	Ends    map[system.EndMetrics]uint64 // by their first verdict
	Took    prometheus.Histogram

	Released uint64 // sessions of processes in containers that were dissolved
}

func newMeter() Meter {
	return Meter{Resyncs: make(map[Cause]uint64), Ends: make(map[system.EndMetrics]uint64), Took: system.NewDurations()}
}

// published counts events that were published to readers.
func (m *Meter) published(events []tracer.Event) {
	for i := range events {
		if t := int(events[i].Type); t < len(m.Events) {
			m.Events[t]++
		}
	}
}

// over counts the end of a session.
func (m *Meter) over(reason, verdict string, took time.Duration) {
	m.Ends[system.EndMetrics{Reason: reason, Verdict: verdict}]++
	m.Took.Observe(took.Seconds())
}
