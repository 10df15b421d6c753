//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A fork storm in a session: every one is counted, no event is lost.
func TestHold8Storm(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	seconds := stage.FromEnv(t, "LNGTEST_STORM", 5)
	before := i.Status()
	run := i.Start([]string{"run", "--name", "storm", "--", stage.Program("vforkstorm"), "20000", fmt.Sprint(seconds), "4"},
		append(m.Env(), "LNGTEST_SECONDS=120"))
	m.Ready()
	m.Wait("end of the storm", stormOver(m, time.Duration(seconds)*time.Second))
	storm := m.Lines("storm")[0]
	forks, ms, failed := stage.Number(t, storm[0]), stage.Number(t, storm[1]), stage.Number(t, storm[2])

	// The daemon reads the last events within its polling interval; the kernel's
	// counts are exact at once.
	s := i.Session("storm")
	require.Equal(t, s.Forks, forks)
	require.Equal(t, s.Live, 1)
	after := i.Status()
	lost := after.Counters["events_lost"] - before.Counters["events_lost"]
	if lost != 0 {
		t.Errorf("%d events lost in the kernel, the daemon says %d", lost, after.Lost-before.Lost)
	}
	if !slices.Equal(after.Degraded, before.Degraded) {
		t.Errorf("degraded by the storm: %v, before: %v", after.Degraded, before.Degraded)
	}
	t.Logf("figure: %d forks in %d ms (%d/s), %d refused by the kernel; lost %d; counters that moved: %s",
		forks, ms, forks*1000/max(ms, 1), failed, lost, moved(before.Counters, after.Counters))

	i.Finish(m, run, "--now", "storm")
}

// stormOver waits for the storm's last line, patience after it should be there.
func stormOver(m *stage.Marker, storm time.Duration) func(bool) bool {
	m.T.Helper()
	select { // the storm itself does not count as patience
	case <-time.After(storm):
	case <-m.T.Context().Done():
	}
	return func(bool) bool { return len(m.Lines("storm")) > 0 }
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
