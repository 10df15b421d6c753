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
		tracer       string
		process      tracer.Process
		want         string
	}{
		"in D":               {"D", "io_schedule", "0", tracer.Process{}, "state D (io_schedule)"},
		"in D, frozen":       {"D", "__refrigerator", "0", tracer.Process{}, "frozen"},
		"frozen":             {"S", "do_freezer_trap", "0", tracer.Process{}, "frozen"},
		"protected":          {"D", "io_schedule", "0", tracer.Process{Flags: tracer.FlagProtected}, "protected"},
		"being torn down":    {"R", "0", "0", tracer.Process{Dead: true}, "exiting"},
		"not signalled yet":  {"S", "poll", "0", tracer.Process{}, "not signalled"},
		"signalled":          {"S", "poll", "0", tracer.Process{Flags: tracer.FlagKilled}, "SIGKILL pending (poll)"},
		"traced":             {"t", "ptrace_stop", "8", tracer.Process{Flags: tracer.FlagKilled}, "SIGKILL pending (ptrace_stop), traced by 8 gdb"},
		"its tracer is gone": {"t", "ptrace_stop", "9", tracer.Process{}, "not signalled, traced by 9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := &Enforcer{proc: dir}
			tt.process.PID = 7
			for _, pid := range []string{"7", "8"} {
				if err := os.Mkdir(filepath.Join(dir, pid), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for file, text := range map[string]string{
				"7/stat": "7 (a) b) " + tt.state + " 1 1", "7/wchan": tt.wchan,
				"7/status": "Name:\ta\nTracerPid:\t" + tt.tracer + "\nUid:\t0\n", "8/comm": "gdb\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := e.reason(&tt.process); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
