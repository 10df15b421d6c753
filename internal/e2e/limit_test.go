//go:build linux

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// Each limit of run ends the session, and the receipt says which one.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		flag, value, want string
		program           []string
	}{
		{"--max-processes", "10", "max_processes", []string{"bomb", "60"}},
		{"--max-lifetime", "300ms", "max_lifetime", []string{"ignoreterm"}},
		{"--max-rss", "64MiB", "max_rss", []string{"bigmem", "200"}},
		{"--idle", "1s", "idle", []string{"daemonise", "stay"}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			i := stage.NewDaemon(t)
			m := stage.NewMarker(t, i.Dir)
			file := filepath.Join(i.Dir, "report.json")
			run := i.Run(m, []string{"--grace", "200ms", "--report", file, tt.flag, tt.value}, tt.program[0], tt.program[1:]...)
			m.Gone()
			run.Wait()
			if r := stage.Report(t, file); r.EndReason != tt.want || r.Verdict != "clean" {
				t.Errorf("end_reason %q, verdict %q (%s), want %q and clean",
					r.EndReason, r.Verdict, r.VerdictWhy, tt.want)
			}
		})
	}
}
