//go:build linux

package status

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// measureAge is how old a snapshot may be: scrapes that come together share it.
const measureAge = 100 * time.Millisecond

// ours are the types of events that the kernel does not report.
var ours = []tracer.EventType{0, tracer.EventLost, tracer.EventMark, tracer.EventTrace}

// scraped is the last snapshot.
type scraped struct {
	mu   sync.Mutex
	last *system.Metrics // never changed again
	at   time.Time
}

// Snapshot answers all concurrent scrapes with one read of the registry.
func (s *Status) Snapshot() (*system.Metrics, error) {
	g := &s.scraped
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && time.Since(g.at) < measureAge {
		return g.last, nil
	}
	now, err := s.measure()
	if err != nil {
		return nil, err
	}
	g.last, g.at = now, time.Now()
	return now, nil
}

// measure reads what the registry counted, and adds other counts.
func (s *Status) measure() (*system.Metrics, error) {
	f := s.o.Kernel.Features()
	m := &system.Metrics{
		Build: [2]string{s.o.Version, f.ABI}, Level: f.Level, BreakerOpen: s.o.Rules.BreakerState().Open,
		Refusals: s.o.Access.RefusedSoFar(),
		Sessions: map[string]int{"active": 0, "paused": 0, "ending": 0, "condemned": 0, "ended": 0},
		Events:   make(map[string]uint64),
		Resyncs:  make(map[string]uint64),
		Ends:     make(map[system.EndMetrics]uint64),
		Halted:   map[string]int{api.ModeHalt: 0, api.ModeDrain: 0},
	}
	m.Host.MemoryAvailable, m.Host.PIDsAvailable = available(s.o.Proc)
	if h := s.Halt(); h != nil {
		m.Halted[h.Mode] = 1
	}
	if r := s.o.SelfCheck.Result(); r != nil {
		m.SelfCheck = &r.OK
	}
	err := s.o.Registry.Read(func(v registry.View) {
		meter := v.Meter()
		m.Degraded = len(s.degraded(v))
		for x := range v.Sessions() {
			state := string(x.State())
			if x.Active() && v.Paused(x.ID()) != 0 {
				state = "paused"
			}
			m.Sessions[state]++
			if !x.Closed() && x.Info().Parent == 0 { // nested members count in their ancestors
				m.Host.Processes += int(max(x.Info().Live, 0))
			}
		}
		m.Rules = s.use(v)
		for t, name := range document.EventNames {
			if !slices.Contains(ours, tracer.EventType(t)) {
				m.Events[string(name)] = meter.Events[t]
			}
		}
		m.Lost = map[string]uint64{"ring": v.Lost(), "reader": s.o.Tally.Missed.Load()}
		m.Kernel, _ = v.Kernel() // it is replaced, never changed
		for _, cause := range registry.Causes {
			m.Resyncs[string(cause)] = meter.Resyncs[cause]
		}
		maps.Copy(m.Ends, meter.Ends)
		m.EndSeconds = meter.Took
	})
	return m, err
}

// available is what the host has left: MemAvailable of /proc/meminfo, and the PIDs that no
// task has.
func available(proc procfs.FS) (memory, pids *uint64) {
	text := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(string(proc), name))
		return string(b)
	}
	for line := range strings.Lines(text("meminfo")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			if kb, err := strconv.ParseUint(f[1], 10, 53); err == nil {
				memory = new(kb << 10)
			}
		}
	}
	most, err := strconv.ParseUint(strings.TrimSpace(text("sys/kernel/pid_max")), 10, 32)
	if f := strings.Fields(text("loadavg")); err == nil && len(f) > 3 {
		_, tasks, _ := strings.Cut(f[3], "/")
		if n, err := strconv.ParseUint(tasks, 10, 32); err == nil {
			pids = new(most - min(n, most))
		}
	}
	return memory, pids
}

// use sums up the live sessions by rule that opens sessions: two rows for a rule at most. An enabled rule without a
// session has one of zeros.
func (s *Status) use(v registry.View) map[system.RuleMetrics]system.UseMetrics {
	p := s.o.Rules.Policy()
	all := map[system.RuleMetrics]system.UseMetrics{{Name: system.NoRule}: {}}
	for _, r := range p.Openers() {
		all[system.RuleMetrics{Name: r.Name}] = system.UseMetrics{}
	}
	for x := range v.Sessions() {
		if x.Closed() {
			continue
		}
		rule, left := system.RuleMetrics{Name: system.NoRule}, false
		for id := range v.Chain(x.ID()) {
			around := v.Session(id)
			if around == nil {
				break
			}
			info := around.Info()
			if rule.Name == system.NoRule && info.Rule != 0 && p.Opener(info.Rule, info.Name) != nil {
				rule.Name = info.Name
			}
			rule.Kept = rule.Kept || info.Kept
			left = left || around.RootDied() != 0
		}
		n, u := v.Graph().Count(x.ID()), all[rule]
		if left && x.State() == api.StateActive {
			u.Leftovers += n.Live
		}
		u.Orphans += n.Orphans
		u.Zombies += x.Zombies()
		u.RSS += n.RSS
		u.Near = max(u.Near, s.o.Near(x.ID()))
		all[rule] = u
	}
	return all
}
