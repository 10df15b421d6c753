package view

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// The state is that of the process with this start, and of no other.
func TestTasks(t *testing.T) {
	pid := os.Getpid()
	s, err := procfs.FS("/proc").Stat(uint32(pid))
	require.NoError(t, err)
	this := api.Ref{PID: pid, StartNS: api.U64(s.Start)*10e6 + 3e6}
	reused := api.Ref{PID: pid, StartNS: this.StartNS + 10e6}
	gone := api.Ref{PID: 1 << 30, StartNS: 1}
	got := Tasks([]api.Ref{this, reused, gone})
	if len(got) != 1 || got[this].State == "" || got[this].Threads < 1 {
		t.Errorf("got %+v", got)
	}
}

func TestUser(t *testing.T) {
	if User(0) != "root" || User(1<<31-7) != "" {
		t.Errorf("%q, %q", User(0), User(1<<31-7))
	}
}
