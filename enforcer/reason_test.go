//go:build linux

package enforcer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
)

func TestReason(t *testing.T) {
	for name, tt := range map[string]struct {
		state, wchan string
		process      tracer.Process
		want         string
	}{
		"in D":              {"D", "io_schedule", tracer.Process{}, "state D (io_schedule)"},
		"in D, frozen":      {"D", "__refrigerator", tracer.Process{}, "frozen"},
		"frozen":            {"S", "do_freezer_trap", tracer.Process{}, "frozen"},
		"protected":         {"D", "io_schedule", tracer.Process{Flags: tracer.FlagProtected}, "protected"},
		"being torn down":   {"R", "0", tracer.Process{Dead: true}, "exiting"},
		"not signalled yet": {"S", "poll", tracer.Process{}, "not signalled"},
		"signalled":         {"S", "poll", tracer.Process{Flags: tracer.FlagKilled}, "SIGKILL pending (poll)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := &Enforcer{proc: dir}
			tt.process.PID = 7
			if err := os.Mkdir(filepath.Join(dir, "7"), 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"stat": "7 (a) b) " + tt.state + " 1 1", "wchan": tt.wchan} {
				if err := os.WriteFile(filepath.Join(dir, "7", file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := e.reason(&tt.process); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
