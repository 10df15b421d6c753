package system

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is everything that a scrape reports, of one moment. Counters are since the
// daemon began, except those of the kernel: they are since its programs were loaded,
// and survive a restart of the daemon.
type Metrics struct {
	Build    [2]string // version and ABI
	Level    int
	Degraded int            // in how many ways
	Sessions map[string]int // by state
	Host     HostMetrics
	Rules    map[RuleMetrics]UseMetrics

	Events          map[string]uint64 // by type
	Lost            map[string]uint64 // events, by where
	HelperErrors    map[HelperMetrics]uint64
	RecursionMisses map[string]uint64 // by program
	Resyncs         map[string]uint64 // by cause
	Ends            map[EndMetrics]uint64
	EndSeconds      prometheus.Metric // of NewDurations
	Refusals        map[string]uint64 // by verb
	ReadersDropped  uint64
	Released        uint64 // sessions of processes in containers

	SelfCheck   *bool // nil: no check was made yet
	BreakerOpen bool
	Halted      map[string]int    // by mode, 1: in force
	Kernel      map[string]uint64 // counters of the kernel side
}

// HostMetrics is how many members live, and what is left for more processes.
type HostMetrics struct {
	Processes                      int
	MemoryAvailable, PIDsAvailable *uint64 // nil: could not be read
}

// RuleMetrics is the rule that sessions belong to, or NoRule, and whether they were kept.
type RuleMetrics struct {
	Name string
	Kept bool
}

// NoRule is in place of a name for sessions that no rule of the policy opened. No rule can
// have this name.
const NoRule = "-"

// UseMetrics is what the sessions of a rule have. Each process is counted once, in its innermost session.
type UseMetrics struct {
	Leftovers, Orphans, Zombies int
	RSS                         uint64 // bytes
}

// HelperMetrics is a helper of the kernel in a program.
type HelperMetrics struct{ Program, Helper string }

// EndMetrics is how a session ended.
type EndMetrics struct{ Reason, Verdict string }

// endBuckets are the upper bounds of the buckets of end durations, in seconds:
// from what the kernel needs for a few members to the longest grace.
var endBuckets = []float64{0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 600}

// NewDurations counts durations of ends, in seconds.
func NewDurations() prometheus.Histogram {
	m := table[slices.IndexFunc(table, func(m metric) bool { return m.read == nil })]
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: MetricsPrefix + m.name, Help: m.help, Buckets: endBuckets})
}
