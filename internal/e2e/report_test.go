//go:build linux

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// With --on-exit report the leftovers stay alive in their session after root and run
// are gone, until they are ended.
func TestOnExitReport(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	file := filepath.Join(i.Dir, "report.json")
	run := i.Run(m, []string{"--name", "kept", "--on-exit", "report", "--report", file}, "daemonise")
	m.Members(1)
	run.Wait()
	if run.Code() != 0 {
		t.Errorf("%v", run)
	}
	if r := stage.Report(t, file); r.Verdict != "left" || r.Left != 1 {
		t.Errorf("verdict %q, %d left", r.Verdict, r.Left)
	}
	if !m.Drain() {
		t.Fatal("the leftover was ended")
	}
	if s := i.Session("kept"); s.State != "active" || s.Live != 1 || s.Leftovers != 1 {
		t.Errorf("state %s, %d live, %d leftovers", s.State, s.Live, s.Leftovers)
	}
	i.End("--now", "kept")
	m.MustBeGone()
}
