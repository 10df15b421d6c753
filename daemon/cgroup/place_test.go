//go:build linux

package cgroup

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestNames(t *testing.T) {
	root := tracer.Identity{PID: 4194304, Start: 12345678901234567890}
	for _, dir := range []string{nameOf(root), "system-" + nameOf(root) + ".slice", "user-1000-lineage_1_2-" + nameOf(root) + ".slice"} {
		got, ok := rootOf(dir)
		require.Equal(t, ok, true)
		require.Equal(t, got, root)
	}
	for _, dir := range []string{"", "lineage.slice", "lineage_1.slice", "lineage_01_2.slice", "lineage_1_2.scope", "lineage_1_2x", "my lineage_1_2", "lineage_hold_1_2.slice", "lineage_1_2-x.slice"} {
		if got, ok := rootOf(dir); ok {
			t.Errorf("%q is of %v", dir, got)
		}
	}
}

func TestPlace(t *testing.T) {
	for cgroup, want := range map[string]string{
		"/system.slice/ssh.service":                   "system-X /system.slice ssh.service",
		"/init.scope":                                 "X  init.scope",
		"/user.slice/user-1000.slice/session-3.scope": "user-1000-X /user.slice/user-1000.slice session-3.scope",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope": "user-1000-X /user.slice/user-1000.slice user@1000.service",
		// Nested: below the slice of the outer session.
		"/system.slice/system-lineage_1_2.slice/system-lineage_1_2.scope": "system-lineage_1_2-X /system.slice/system-lineage_1_2.slice system-lineage_1_2.scope",
		// A slice only by its name: its maker may be anybody.
		"/system.slice/a.service/system-a.slice/b.scope": "system-X /system.slice a.service",
		"/_cpu.slice/a.service":                          "cpu-X /_cpu.slice a.service",
		"/docker/0123":                                   "no unit of systemd has the cgroup /docker/0123",
		"/user-1000.slice/a.scope":                       "no unit of systemd has the cgroup /user-1000.slice/a.scope",
		"/system.slice":                                  "no unit of systemd has the cgroup /system.slice",
		"/":                                              "no unit of systemd has the cgroup /",
		"":                                               "no unit of systemd has the cgroup ",
	} {
		p, err := placeOf(cgroup)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%s %s %s", p.stem("X"), p.path, p.unit)
		}
		require.Equal(t, got, want)
	}
}

// hierarchy makes a tree like that of cgroups, of files and what they say.
func hierarchy(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text+"\n"), 0o644))
	}
	return dir
}

// TestLeave: a root that would leave a limit is refused. Those of the slice it keeps.
func TestLeave(t *testing.T) {
	const manager, at = "u.slice/user@1.service/", "u.slice/user@1.service/a.slice/b.scope/"
	none := map[string]string{
		"u.slice/memory.max": "4096", at + "memory.max": "max", at + "memory.high": "max", at + "cpu.max": "max 100000", at + "io.max": "",
		at + "cpuset.cpus": "", at + "cgroup.freeze": "0", manager + "pids.max": "9000", at + "pids.max": "max",
	}
	tasks, err := leave(hierarchy(t, none), "user@1.service", "/"+strings.TrimSuffix(at, "/"), "/u.slice")
	require.NoError(t, err)
	require.Equal(t, tasks, 9000)
	for file, value := range map[string]string{
		at + "memory.max": "104857600", manager + "memory.high": "1", "u.slice/user@1.service/a.slice/cpu.max": "50000 100000",
		at + "io.max": "8:0 rbps=1 wbps=max", manager + "memory.swap.max": "0", at + "cpuset.cpus": "0-1", at + "cgroup.freeze": "1",
	} {
		tree := maps.Clone(none)
		tree[file] = value
		_, err := leave(hierarchy(t, tree), "user@1.service", "/"+strings.TrimSuffix(at, "/"), "/u.slice")
		require.Contains(t, fmt.Sprint(err), "user@1.service has a limit of its own that the session would leave", filepath.Base(file)+" of ", value)
	}
}

func TestLimits(t *testing.T) {
	const none = math.MaxUint64
	for _, test := range []struct {
		limits api.Limits
		tasks  uint64
		want   []uint64
	}{
		{api.Limits{}, none, []uint64{none, none, none, none, none, none}},
		{api.Limits{MemoryBytes: 1, MemoryHighBytes: 2, CPUs: 2.5, Tasks: 500, IOWeight: 50}, none, []uint64{1, 2, 2500000, 500, 0, 50}},
		{api.Limits{Tasks: 500}, 100, []uint64{none, none, none, 100, none, none}},
		{api.Limits{}, 100, []uint64{none, none, none, 100, none, none}},
	} {
		for i, p := range limits(&test.limits, test.tasks) {
			require.Equal(t, p.Value.Value().(uint64), test.want[i])
		}
	}
}

// TestInForce: what systemd was asked for but the kernel has not got is an error.
func TestInForce(t *testing.T) {
	s := &systemd{mount: hierarchy(t, map[string]string{
		"g.slice/memory.max": "4096", "g.slice/cpu.max": "max 100000", "g.slice/io.weight": "default 100",
	})}
	require.NoError(t, s.inForce("/g.slice", &api.Limits{MemoryBytes: 4096, IOWeight: 100}))
	for _, l := range []api.Limits{{IOWeight: 1000}, {CPUs: 1}, {Tasks: 1}, {MemoryHighBytes: 1}} {
		require.Contains(t, fmt.Sprint(s.inForce("/g.slice", &l)), "g.slice has not got the limit")
	}
}

// TestRemoveBusy: systemd is not asked while anything is in the cgroup.
func TestRemoveBusy(t *testing.T) {
	s := &systemd{mount: hierarchy(t, map[string]string{
		"a.slice/cgroup.events": "populated 1\nfrozen 0", "b.slice/cgroup.events": "populated 0\nfrozen 0", "b.slice/b.scope/x": "", "b.slice/b-lineage_1_2.slice/x": "",
	})}
	require.Equal(t, fmt.Sprint(s.Remove("/a.slice")), "a process is in a.slice")
	require.Equal(t, fmt.Sprint(s.Remove("/b.slice")), "b-lineage_1_2.slice is in b.slice")
}
