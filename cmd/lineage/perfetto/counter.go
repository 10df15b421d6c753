package perfetto

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
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
	t.count("memory", at, "RSS in bytes", s.RSSBytes)
	if t.usage.at != 0 {
		busy := max(s.CPUSeconds-t.usage.cpuSeconds, 0)
		t.count("CPUs", at, "in use", busy/time.Duration(at-t.usage.at).Seconds())
	}
	t.usage = usage{at, s.CPUSeconds}
	return t.err
}

// count adds a value to a counter, which viewers name by both words.
func (t *Trace) count(name string, at uint64, of string, value any) {
	t.emit(event{Phase: counter, At: ns(at), Name: name, Notes: notes{of: value}})
}

// alive adds how many processes are alive.
func (t *Trace) alive() { t.count("processes", t.now, "alive", t.live) }
