package system

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const MetricsPrefix = "lineage_"

type metricsKind string

const (
	gauge     metricsKind = "gauge"
	counter   metricsKind = "counter"
	histogram metricsKind = "histogram"
)

// put reports one value, with one word for each label.
type put func(v float64, labels ...string)

type metric struct {
	name   string
	kind   metricsKind
	labels []string
	help   string
	read   func(*Metrics, put) // nil: the histogram
}

// table is every metric of ours, in the order of the documentation.
var table = []metric{
	{"build_info", gauge, []string{"version", "abi"},
		"1, with the version of the daemon and the hash of its kernel side.",
		func(s *Metrics, p put) { p(1, s.Build[:]...) }},
	{"level", gauge, nil, "The guarantee level, 1 to 4.",
		func(s *Metrics, p put) { p(float64(s.Level)) }},
	{"degraded", gauge, nil, "Number of ways in which the daemon is degraded; lineage doctor and GET /v1/status name them.",
		func(s *Metrics, p put) { p(float64(s.Degraded)) }},
	{"sessions", gauge, []string{"state"}, "Sessions by state: active, paused, ending, condemned, and ended ones in memory (ended).",
		func(s *Metrics, p put) { each(s.Sessions, p) }},
	{"processes", gauge, nil, "Live members of all sessions.",
		func(s *Metrics, p put) { p(float64(s.Host.Processes)) }},
	{
		"leftovers",
		gauge,
		[]string{"rule", "kept"},
		"Live members of sessions whose root is gone, and that nothing ends. rule: the rule that opened the session or one around it, - without a rule. kept: true for sessions that were kept.",
		perRule(func(u UseMetrics) float64 { return float64(u.Leftovers) }),
	},
	{"orphans", gauge, []string{"rule", "kept"}, "Live members whose creator is dead, labelled likewise.",
		perRule(func(u UseMetrics) float64 { return float64(u.Orphans) })},
	{"zombies", gauge, []string{"rule", "kept"},
		"Dead members that their parent has not waited for, labelled likewise.",
		perRule(func(u UseMetrics) float64 { return float64(u.Zombies) })},
	{"rss_bytes", gauge, []string{"rule", "kept"},
		"Memory of the live members, labelled likewise. Shared memory counts in each process.",
		perRule(func(u UseMetrics) float64 { return float64(u.RSS) })},
	{"memory_limit_ratio", gauge, []string{"rule", "kept"},
		"The largest share of its memory limit that a session uses, 0 to 1, labelled likewise.",
		perRule(func(u UseMetrics) float64 { return u.Near })},
	{"memory_available_bytes", gauge, nil, "Memory that the host has left, for processes of any kind (MemAvailable).",
		known(func(s *Metrics) *uint64 { return s.Host.MemoryAvailable })},
	{"pids_available", gauge, nil, "PIDs that the host has left, for processes of any kind.",
		known(func(s *Metrics) *uint64 { return s.Host.PIDsAvailable })},
	{"events_total", counter, []string{"type"}, "Events sent to readers, by type.",
		func(s *Metrics, p put) { each(s.Events, p) }},
	{"events_lost_total", counter, []string{"where"},
		"Events lost because the kernel's ring was full (ring), or because a reader was too slow (reader).",
		func(s *Metrics, p put) { each(s.Lost, p) }},
	{
		"resyncs_total",
		counter,
		[]string{"cause"},
		"Extra comparisons with the kernel's task list, by cause: start, lost (events), misses (skipped programs), births (births or deaths not counted as usual), member (an unknown member), moved (members that changed their session).",
		func(s *Metrics, p put) { each(s.Resyncs, p) },
	},
	{"ends_total", counter, []string{"reason", "verdict"},
		"Sessions that ended, by reason and first verdict.",
		func(s *Metrics, p put) {
			for e, n := range s.Ends {
				p(float64(n), e.Reason, e.Verdict)
			}
		}},
	{"end_duration_seconds", histogram, nil,
		"From the beginning of a session's end to its first verdict, the grace included.", nil},
	{"refusals_total", counter, []string{"verb"},
		"Refused requests, by what was asked for; limit: too many requests.",
		func(s *Metrics, p put) { each(s.Refusals, p) }},
	{"self_check_ok", gauge, nil, "1 if the last self-check passed, 0 if it failed; absent before the first is over.",
		func(s *Metrics, p put) {
			if s.SelfCheck != nil {
				p(number(*s.SelfCheck))
			}
		}},
	{"breaker_open", gauge, nil, "1 while the circuit breaker is open for a user, whose sessions are not ended automatically.",
		func(s *Metrics, p put) { p(number(s.BreakerOpen)) }},
	{"halted", gauge, []string{"mode"}, "1 while a halt (halt) or a drain (drain) is in force.",
		func(s *Metrics, p put) { each(s.Halted, p) }},
	{"agents_halted_total", counter, nil, "Agents that died at their exec because of a halt or a drain, since the programs were loaded.",
		func(s *Metrics, p put) { p(float64(s.Kernel["agents_halted"])) }},
	{
		"crossings_total",
		counter,
		[]string{"signal"},
		"Signals that kill or stop, from members to processes outside their guarded session, or spared in it, since the programs were loaded: sent, refused.",
		func(s *Metrics, p put) {
			p(float64(s.Kernel["signals_outside"]), "sent")
			p(float64(s.Kernel["signals_refused"]), "refused")
		},
	},
}

func each[N int | uint64](values map[string]N, p put) {
	for label, n := range values {
		p(float64(n), label)
	}
}

func perRule(of func(UseMetrics) float64) func(*Metrics, put) {
	return func(s *Metrics, p put) {
		for r, u := range s.Rules {
			p(of(u), r.Name, strconv.FormatBool(r.Kept))
		}
	}
}

// known reports a value unless it is nil.
func known(of func(*Metrics) *uint64) func(*Metrics, put) {
	return func(s *Metrics, p put) {
		if v := of(s); v != nil {
			p(float64(*v))
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collector reports the table from one snapshot a scrape.
type collector struct {
	descs []*prometheus.Desc
	read  func() (*Metrics, error)
}

func newCollector(read func() (*Metrics, error)) *collector {
	c := &collector{read: read}
	for _, m := range table {
		c.descs = append(c.descs, prometheus.NewDesc(MetricsPrefix+m.name, m.help, m.labels, nil))
	}
	return c
}

// Describe is [prometheus.Collector]'s.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect is [prometheus.Collector]'s.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s, err := c.read()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.descs[0], err)
		return
	}
	for i, m := range table {
		d := c.descs[i]
		if m.read == nil {
			to <- s.EndSeconds
			continue
		}
		of := prometheus.GaugeValue
		if m.kind == counter {
			of = prometheus.CounterValue
		}
		m.read(s, func(v float64, labels ...string) { to <- prometheus.MustNewConstMetric(d, of, v, labels...) })
	}
}

// MetricsHandler serves the metrics. read is called once a scrape, from any
// goroutine; its error is the reply's, with status 500.
func MetricsHandler(read func() (*Metrics, error)) http.Handler {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(read), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true})
}

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

	Events     map[string]uint64 // by type
	Lost       map[string]uint64 // events, by where
	Resyncs    map[string]uint64 // by cause
	Ends       map[EndMetrics]uint64
	EndSeconds prometheus.Metric // of NewDurations
	Refusals   map[string]uint64 // by verb

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
	RSS                         uint64  // bytes
	Near                        float64 // to a memory limit: 1 is at it
}

type EndMetrics struct{ Reason, Verdict string }

// endBuckets are the upper bounds of the buckets of end durations, in seconds:
// from what the kernel needs for a few members to the longest grace.
var endBuckets = []float64{0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 600}

// NewDurations counts durations of ends, in seconds.
func NewDurations() prometheus.Histogram {
	m := table[slices.IndexFunc(table, func(m metric) bool { return m.read == nil })]
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: MetricsPrefix + m.name,
		Help: m.help, Buckets: endBuckets})
}
