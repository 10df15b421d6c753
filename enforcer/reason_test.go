//go:build linux

package enforcer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

func TestReason(t *testing.T) {
	for name, tt := range map[string]struct {
		state, wchan, status string
		process              tracer.Process
		want                 string
	}{
		"in D":              {"D", "io_schedule", "", tracer.Process{}, "state D (io_schedule)"},
		"in D, frozen":      {"D", "__refrigerator", "", tracer.Process{}, "frozen"},
		"frozen":            {"S", "do_freezer_trap", "", tracer.Process{}, "frozen"},
		"waits for a vfork": {"D", "kernel_clone", "", tracer.Process{}, "not signalled"},
		"protected":         {"D", "io_schedule", "", tracer.Process{Flags: tracer.FlagProtected}, "protected"},
		"being torn down":   {"R", "0", "", tracer.Process{Dead: true}, "exiting"},
		"not signalled yet": {"S", "poll", "", tracer.Process{}, "not signalled"},
		"dumping core": {"D", "pipe_write", "Name:\tCoreDumping: 1\nCoreDumping:\t1\nSigPnd:\t0000000000000000\n",
			tracer.Process{}, "writing a core dump (pipe_write)"},
		"killed, dumping core": {"R", "0", "CoreDumping:\t1\n", tracer.Process{Flags: tracer.FlagKilled}, "writing a core dump"},
		"exits as a group":     {"S", "poll", "CoreDumping:\t0\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n", tracer.Process{}, "SIGKILL pending (poll)"},
		"killed by another":    {"S", "poll", "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n", tracer.Process{}, "SIGKILL pending (poll)"},
		"another signal":       {"S", "poll", "Name:\tSigPnd: 100\nSigPnd:\t0000000000004000\nShdPnd:\t0000000000000200\n", tracer.Process{}, "not signalled"},
		"signalled":            {"S", "poll", "", tracer.Process{Flags: tracer.FlagKilled}, "SIGKILL pending (poll)"},
		"traced":               {"t", "ptrace_stop", "TracerPid:\t8\n", tracer.Process{Flags: tracer.FlagKilled}, "SIGKILL pending (ptrace_stop), traced by 8 gdb"},
		"its tracer is gone":   {"t", "ptrace_stop", "TracerPid:\t9\n", tracer.Process{}, "not signalled, traced by 9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := &Enforcer{proc: procfs.FS(dir)}
			tt.process.PID = 7
			for _, pid := range []string{"7", "8"} {
				require.NoError(t, os.Mkdir(filepath.Join(dir, pid), 0o700))
			}
			for file, text := range map[string]string{
				"7/stat": "7 (a) b) " + tt.state + " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", "7/wchan": tt.wchan, "7/status": tt.status, "8/comm": "gdb\n",
			} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			require.Equal(t, e.reason(&tt.process), tt.want)
			require.Equal(t, e.Stuck(&tt.process) == "frozen", tt.wchan == "__refrigerator") // a SIGKILL ends the other
		})
	}
}
