//go:build linux

package export

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestUnharmed: with an exporter whose receiver is down, ends take as long and the
// daemon uses as much memory as without one. Measured in pairs, under forks.
func TestUnharmed(t *testing.T) {
	onDemand(t)
	pairs := stage.FromEnv(t, "LNGTEST_PAIRS", 5)
	i := stage.NewDaemon(t)
	r := newReceiver(t)
	r.down()
	loaded(i, "load", time.Duration(pairs)*8*time.Second)
	var with, without []time.Duration
	var before, after []int
	for range pairs {
		without, before = append(without, ended(i)), append(before, resident(i))
		x := exporter(i, r.addr, "traces,logs", t.TempDir())
		time.Sleep(2 * time.Second) // it has tried, and reads nothing
		with, after = append(with, ended(i)), append(after, resident(i))
		x.Stop()
	}
	i.End("load", "--now")
	slices.Sort(with)
	slices.Sort(without)
	slices.Sort(before)
	slices.Sort(after)
	middle := pairs / 2
	t.Logf("figure: %d pairs: end --now of 50 processes %v without, %v with an exporter whose receiver is down (medians); the daemon's memory %d and %d KiB",
		pairs, without[middle].Round(time.Millisecond/10), with[middle].Round(time.Millisecond/10), before[middle], after[middle])
	if grew := after[middle] - before[middle]; grew > 8<<10 {
		t.Errorf("the daemon takes %d KiB more", grew)
	}
	if with[middle] > 2*without[middle]+100*time.Millisecond {
		t.Errorf("an end takes %v, without an exporter %v", with[middle], without[middle])
	}
}

// ended starts a session of 50 processes and returns how long its end took.
func ended(i *stage.Instance) time.Duration {
	i.T.Helper()
	m := stage.NewMarker(i.T, i.Dir)
	run := i.Run(m, []string{"--name", "crowd"}, "bomb", "50")
	m.Ready()
	id := i.Session("crowd").ID
	i.End(id, "--now")
	run.Wait()
	return time.Duration(i.Receipt(id).DurationMS * float64(time.Millisecond))
}

// resident is the daemon's memory, in KiB.
func resident(i *stage.Instance) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(stage.ProcStatus(i.Version().PID, "RssAnon"), " kB"))
	return n
}
