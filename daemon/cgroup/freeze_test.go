//go:build linux

package cgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/cgroup"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// TestFreeze: a pause freezes the cgroup of a session, and no stranger in it.
func TestFreeze(t *testing.T) {
	_, mount, err := cgroup.Choose()
	if err != nil || os.Geteuid() != 0 {
		t.Skip("no cgroup v2, or not root")
	}
	h, m := newHost(t, mount), cgroup.New(mount)
	start := func() tracer.Identity {
		c := exec.Command("sleep", "60")
		require.NoError(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		st, err := procfs.FS("/proc").Stat(uint32(c.Process.Pid))
		require.NoError(t, err)
		return tracer.Identity{PID: st.PID, Start: st.Start * uint64(procfs.Tick)}
	}
	group := ""
	t.Cleanup(func() { until(t, "empty cgroup", func() bool { return m.Remove(group) == nil }) })
	root, stranger := start(), start()
	group, err = m.Make(root, &api.Limits{})
	require.NoError(t, err)
	frozen := func(want int) {
		t.Helper()
		until(t, "frozen", func() bool {
			return strings.Contains(string(require.ReadFile(t, mount+group+"/cgroup.events")), fmt.Sprintf("frozen %d\n", want))
		})
	}
	s := h.Session(root.PID, 0)
	require.NoError(t, h.groups.Freeze(s.ID(), true)) // it has none yet
	frozen(0)
	h.watch(s, group)
	require.NoError(t, m.Move(group, stranger))
	require.Contains(t, fmt.Sprint(h.groups.Freeze(s.ID(), true)), fmt.Sprintf("pid %d is not a member", stranger.PID))
	frozen(0)
	require.NoError(t, os.WriteFile(mount+"/cgroup.procs", fmt.Append(nil, stranger.PID), 0))
	require.NoError(t, h.groups.Freeze(s.ID(), true))
	frozen(1)
	require.NoError(t, h.groups.Freeze(s.ID(), false))
	frozen(0)
}
