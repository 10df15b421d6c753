package perfetto

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// The tracks above the processes, in their order.
const (
	rankGaps uint64 = iota + 1
	rankCalls
	rankLive
	rankMemory
	rankCPU
	rankProcess
)

// gauge is a counter of the session.
type gauge struct {
	kind, name string
	rank, unit uint64
}

var (
	liveCounter   = gauge{"live", "live processes", rankLive, unitCount}
	memoryCounter = gauge{"memory", "memory (RSS)", rankMemory, unitBytes}
	cpuCounter    = gauge{"cpu", "CPUs in use", rankCPU, 0}
)

// usage is what the members had used at a time.
type usage struct {
	at         uint64
	cpuSeconds float64
}

// Usage adds what the members use now.
func (t *Trace) Usage(s *api.Session, now time.Time) error {
	at := uint64(max(now.UnixNano()-t.offset, 0))
	if !t.clocked || at <= t.usage.at {
		return t.err
	}
	t.count(memoryCounter, at, float64(s.RSSBytes))
	if t.usage.at != 0 {
		busy := max(s.CPUSeconds-t.usage.cpuSeconds, 0)
		t.count(cpuCounter, at, busy/time.Duration(at-t.usage.at).Seconds())
	}
	t.usage = usage{at, s.CPUSeconds}
	return t.err
}

// count adds a value to a counter.
func (t *Trace) count(g gauge, at uint64, value float64) {
	uuid := t.id(g.kind)
	if !t.counts[g.kind] {
		t.counts[g.kind] = true
		t.describe(&track{uuid: uuid, parent: t.id("session"), name: g.name, rank: g.rank, counts: true, unit: g.unit})
	}
	var m message
	m.uint(eventType, uint64(counter))
	m.uint(eventTrack, uuid)
	m.double(eventDoubleCounter, value)
	t.packet(at, packetTrackEvent, m)
}
