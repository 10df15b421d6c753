//go:build linux

package status

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Options struct {
	registry.Ground
	Access    *access.Access
	Rules     *rules.Policy
	SelfCheck *Check
	Tally     *stream.Tally
	Recorder  *history.Recorder
	Audit     *access.AuditLog
	Version   string
	Ephemeral bool
	Started   time.Time
	Start     *Start
	Near      func(tracer.SessionID) float64 // [cgroup.Groups.Near]
}

// Status is the daemon's state. It may be used from any goroutine once the daemon
// serves.
type Status struct {
	o       Options
	sources []Source
	scraped scraped
}

// Start is what a daemon did at its start. It is complete when the daemon serves.
type Start struct {
	SelfProtect     bool
	SelfProtectErr  error
	Capabilities    []string // those that it kept
	CapabilitiesErr error    // why it could not give up the others
	Lacking         error    // those that it needs and does not have
}

// Source reports in which ways a part of the daemon does not work as it should.
type Source = func() []string

// New makes the status of a daemon. Sources are listed in this order, after the
// kernel's and the registry's.
func New(o Options, sources ...Source) *Status { return &Status{o: o, sources: sources} }

// Failing is the source of an error that may come at any time.
func Failing(what string, get func() error) Source {
	return func() []string {
		if err := get(); err != nil {
			return []string{what + ": " + err.Error()}
		}
		return nil
	}
}

func (s *Status) Version() api.Version {
	f := s.o.Kernel.Features()
	return api.Version{
		Head: api.NewHead("version"), Version: s.o.Version, API: api.Major, ABI: f.ABI, PID: os.Getpid(),
		Ephemeral: s.o.Ephemeral, Level: f.Level, Mode: s.o.Rules.Mode(), Started: &s.o.Started,
	}
}

func (s *Status) Document(c access.Caller) (api.Status, error) {
	f := s.o.Kernel.Features()
	d := api.Status{
		Head:           api.NewHead("status"),
		Level:          f.Level,
		Capabilities:   s.o.Start.Capabilities,
		Missing:        f.Missing,
		Limits:         f.Limits,
		Mode:           s.o.Rules.Mode(),
		Breaker:        s.o.Rules.BreakerState(),
		Halt:           s.Halt(),
		RefusesForks:   f.Refuses.String(),
		RefusesSignals: f.RefusesSignals.String(),
		SelfProtect:    s.o.Start.SelfProtect,
		SelfCheck:      s.o.SelfCheck.Result(),
		AuditHead:      s.o.Audit.Head().String(),
	}
	err := s.o.Registry.ReadFor(c, func(v registry.View) {
		d.Degraded, d.History = s.degraded(v), s.o.Recorder.Degraded()
		d.Lost, d.Sessions = v.Lost(), v.Live()
		for x := range v.Sessions() {
			if !x.Closed() && x.Info().Parent == 0 { // nested members count in their ancestors
				v.Refresh(x)
				d.Live += int(max(x.Info().Live, 0))
			}
		}
		if access.Decide(c, access.Metrics, access.Scope{}).Allow {
			counters, misses := v.Kernel()
			d.Counters = make(map[string]uint64, len(counters)+len(misses))
			maps.Copy(d.Counters, counters)
			for name, n := range misses {
				d.Counters["recursion_misses."+name] = n
			}
			d.Counters["readers_dropped"] = s.o.Tally.Dropped.Load()
			s.o.Recorder.Count(v, d.Counters)
		}
	})
	return d, err
}

// degraded lists what does not work as it should.
func (s *Status) degraded(v registry.View) []string {
	all := append(slices.Clone(s.o.Kernel.Features().Degraded), v.Degraded()...)
	for _, source := range s.sources {
		all = append(all, source()...)
	}
	return all
}

func (s *Status) Watched(v registry.View) api.WatchStatus {
	return api.WatchStatus{
		Level: s.o.Kernel.Features().Level, Mode: s.o.Rules.Mode(), Degraded: s.degraded(v),
		Lost: v.Lost(), Forks: v.Forks(),
		Live: v.Graph().Stats().Live, Breaker: s.o.Rules.BreakerState(),
		SelfCheck: s.o.SelfCheck.Result(), Halt: s.Halt(),
	}
}

func (s *Status) Halt() *api.Halt { return document.Halt(s.o.Kernel.Halted(), s.o.Clock.Clock) }

func (s *Status) Line(v registry.View) string {
	f := s.o.Kernel.Features()
	text := fmt.Sprintf("level %d, %s, %s", f.Level, s.o.Rules.Mode(),
		display.Count(v.Live(), "session", "sessions"))
	if h := s.Halt(); h != nil {
		text += "; " + display.Halt(h)
	}
	if why := s.degraded(v); len(why) > 0 {
		text += "; degraded: " + why[0]
		if len(why) > 1 {
			text += fmt.Sprintf(" (and %d more)", len(why)-1)
		}
	}
	return text
}
