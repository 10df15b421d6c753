//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/perfetto/perfettotest"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A timeline has every process of the session, both while it runs and from the history;
// LNGTEST_TIMELINE is how many there are. Meanwhile run stays small, and it finishes
// soon after the end.
func TestTimeline(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	forks := stage.FromEnv(t, "LNGTEST_TIMELINE", 5000)
	file, receipt := filepath.Join(i.Dir, "run.json"), filepath.Join(i.Dir, "receipt.json")
	before := i.Status()
	run := i.Start([]string{"run", "--name", "timeline", "--trace", file, "--report", receipt, "--",
		stage.Program("vforkstorm"), "4000", "60", "2", fmt.Sprint(forks)}, append(m.Env(), "LNGTEST_SECONDS=180"))
	m.Ready()
	m.Wait("end of the forks", stormOver(m, time.Duration(forks/4000+1)*time.Second))
	peak := peakRSS(t, run.Process.Pid)
	i.Finish(m, run, "--now", "timeline")
	over := time.Now()
	r := stage.Report(t, receipt)
	closed := over.Sub(*r.Ended)
	if run.Code() != 137 || r.Verdict != "clean" {
		t.Errorf("%v, verdict %s", run, r.Verdict)
	}
	if peak > 100<<10 || closed > 10*time.Second {
		t.Errorf("run took %d KiB, and %v after the end", peak, closed)
	}

	past := filepath.Join(i.Dir, "history.json")
	began := time.Now()
	i.Must("history", "timeline", "--perfetto", past)
	took := time.Since(began)
	lost := i.Status().Lost - before.Lost
	for _, name := range []string{file, past} {
		b := require.ReadFile(t, name)
		read := perfettotest.Decode(t, b)
		if read.Processes != r.Started || read.Flows != r.Started-1 || read.Marks["empty"] != 1 {
			t.Errorf("%s: %d processes, %d arrows, marks %v; the receipt has %d processes", name,
				read.Processes, read.Flows, read.Marks, r.Started)
		}
		if len(read.Gaps) > 0 || read.Marks["receipt: clean"] != 1 {
			t.Errorf("%s: gaps %q; the daemon lost %d events", name, read.Gaps, lost)
		}
		t.Logf("figure: %s: %d processes, %d events, %.1f MB", filepath.Base(name), read.Processes, read.Events, float64(len(b))/1e6)
	}
	t.Logf("figure: peak of run %.1f MiB, closed %v after the end, history written in %v",
		float64(peak)/1024, closed.Round(time.Millisecond), took.Round(time.Millisecond))
}

// peakRSS is the most memory that a process has had, in KiB.
func peakRSS(t *testing.T, pid int) (kib int) {
	t.Helper()
	b := require.ReadFile(t, fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				return kib
			}
		}
	}
	t.Fatal("the process has no VmHWM")
	return 0
}
