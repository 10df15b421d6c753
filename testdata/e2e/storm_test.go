//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A storm of forks under a session: every one is counted, no event is lost.
func TestHold8Storm(t *testing.T) {
	i := newDaemon(t)
	m := newMarker(t, i.dir)
	seconds := fromEnv(t, "LNGTEST_STORM", 5)
	before := i.status()
	run := i.start([]string{"run", "--name", "storm", "--", program("vforkstorm"), "20000", fmt.Sprint(seconds), "4"},
		append(m.env(), "LNGTEST_SECONDS=120"))
	m.ready()
	m.wait("end of the storm", stormOver(m, time.Duration(seconds)*time.Second))
	storm := m.lines("storm")[0]
	forks, ms, failed := number(t, storm[0]), number(t, storm[1]), number(t, storm[2])

	// The daemon reads the last events within its polling interval; the kernel's
	// counts are exact at once.
	s := i.session("storm")
	if s.Forks != forks {
		t.Errorf("the kernel entered %d children, the storm made %d", s.Forks, forks)
	}
	if s.Live != 1 {
		t.Errorf("live %d after the storm, want 1", s.Live)
	}
	after := i.status()
	lost := after.Counters["events_lost"] - before.Counters["events_lost"]
	if lost != 0 {
		t.Errorf("%d events lost in the kernel, the daemon says %d", lost, after.Lost-before.Lost)
	}
	if !slices.Equal(after.Degraded, before.Degraded) {
		t.Errorf("degraded by the storm: %v, before: %v", after.Degraded, before.Degraded)
	}
	t.Logf("figure: %d forks in %d ms (%d/s), %d refused by the kernel; lost %d; counters that moved: %s",
		forks, ms, forks*1000/max(ms, 1), failed, lost, moved(before.Counters, after.Counters))

	i.end("--now", "storm")
	m.mustBeGone()
	run.wait()
}

// stormOver waits for the storm's last line, patience after it should be there.
func stormOver(m *marker, storm time.Duration) func(bool) bool {
	m.t.Helper()
	select { // the storm itself is no part of the patience
	case <-time.After(storm):
	case <-m.t.Context().Done():
	}
	return func(bool) bool { return len(m.lines("storm")) > 0 }
}

func moved(before, after map[string]uint64) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n != 0 {
			fmt.Fprintf(&b, "%s %d, ", name, n)
		}
	}
	return strings.TrimSuffix(b.String(), ", ")
}
