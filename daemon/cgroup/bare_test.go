//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// host is this host's Maker.
func host(t *testing.T) *bare {
	_, mount, err := Choose()
	if err != nil || os.Geteuid() != 0 {
		t.Skip("no cgroup v2, or not root")
	}
	return New(mount).(*bare)
}

// sleeper is a process, and its end.
func sleeper(t *testing.T) (tracer.Identity, func()) {
	cmd := exec.Command("sleep", "3600")
	require.NoError(t, cmd.Start())
	end := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(end)
	return identify(t, cmd.Process.Pid), end
}

// TestBare: a group without limits needs no controller. A group for a process in it is beside its leaf. Nothing is removed
// while a process is there.
func TestBare(t *testing.T) {
	b := host(t)
	outer, endOuter := sleeper(t)
	inner, endInner := sleeper(t)
	above := b.proc.Cgroup(outer.PID)
	group, err := b.Make(outer, &api.Limits{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Remove(group) })
	require.Equal(t, group, filepath.Join(above, nameOf(outer)))
	require.Equal(t, b.proc.Cgroup(outer.PID), group+"/members")
	if _, err := b.Make(outer, &api.Limits{}); err == nil {
		t.Error("made twice")
	}
	require.NoError(t, b.Move(group, tracer.Identity{PID: inner.PID}, tracer.Identity{PID: 1 << 22}))
	require.Equal(t, b.proc.Cgroup(inner.PID), above) // another one had its PID
	require.NoError(t, b.Move(group, inner))
	nested, err := b.Make(inner, &api.Limits{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Remove(nested) })
	require.Equal(t, nested, filepath.Join(group, nameOf(inner)))
	endInner()
	if b.Remove(group) == nil {
		t.Error("removed with a process in it")
	}
	require.NoError(t, b.Remove(nested))
	endOuter()
	require.NoError(t, b.Remove(group))
	require.NoError(t, b.Remove(group)) // it is gone
}

// TestBareRefuses: one line says what is missing. Nothing is left behind.
func TestBareRefuses(t *testing.T) {
	mount, proc := t.TempDir(), t.TempDir()
	b := &bare{mount, procfs.FS(proc)}
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "7"), 0o755))
	stat := "7 (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0" + strings.Repeat(" 0", 30) + "\n"
	write := func(path, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(proc+"/7/stat", stat)
	root := tracer.Identity{PID: 7, Start: 500 * uint64(procfs.Tick)}
	for _, c := range []struct{ cgroup, controllers, err string }{
		{"/", "cpu pids", "this host's cgroup v2 has no memory controller"},
		{"/foo", "memory pids", "the cgroup /foo of pid 7 hands out no memory controller"},
		{"/../x", "memory", "the cgroup of pid 7 is not below " + mount},
		{"/open", "memory", "the cgroup /open of pid 7 is not only root's: it is not used for limits"},
		{"/" + nameOf(root) + "/members", "memory", "pid 7 is the root of a session with limits"},
	} {
		write(proc+"/7/cgroup", "1:name=x:/\n0::"+c.cgroup+"\n")
		write(mount+"/cgroup.controllers", c.controllers)
		write(mount+"/cgroup.subtree_control", c.controllers)
		require.NoError(t, os.MkdirAll(mount+"/foo", 0o755)) // it has no subtree_control
		require.NoError(t, os.MkdirAll(mount+"/open", 0o755))
		require.NoError(t, os.Chmod(mount+"/open", 0o777))
		_, err := b.Make(root, &api.Limits{MemoryBytes: 1 << 30})
		require.Equal(t, fmt.Sprint(err), c.err)
		left, _ := filepath.Glob(mount + "/*/lineage*")
		require.Equal(t, len(left), 0)
	}
	l := api.Limits{MemoryBytes: 1 << 30, MemoryHighBytes: 1 << 29, Tasks: 5, IOWeight: 200, IfPossible: true}
	write(mount+"/cgroup.controllers", "pids")
	write(mount+"/cgroup.subtree_control", "pids")
	require.NoError(t, b.allow("/", 7, &l))
	none := []string{"this host's cgroup v2 has no memory controller", "this host's cgroup v2 has no io controller"}
	if l.MemoryBytes+l.MemoryHighBytes != 0 || l.Tasks != 5 || l.IOWeight != 0 || !slices.Equal(l.Unset, none) {
		t.Errorf("%+v", l)
	}
	root.Start += uint64(procfs.Tick)
	if _, err := b.Make(root, &api.Limits{}); err == nil || err.Error() != "process 7 has exited" {
		t.Error(err)
	}
}

// TestSwap: who has a limit of memory does not swap, and needs no swap for that.
func TestSwap(t *testing.T) {
	b := New(t.TempDir()).(*bare)
	write := func(file string) { require.NoError(t, os.WriteFile(filepath.Join(b.mount, file), nil, 0o644)) }
	for _, k := range knobs {
		if k.file != swapMax {
			write(k.file)
		}
	}
	require.NoError(t, b.Set("/", &api.Limits{MemoryBytes: 1 << 30}))
	write(swapMax)
	for i, want := range []string{"0", "max"} { // the kernel's file does not grow
		require.NoError(t, b.Set("/", &api.Limits{MemoryBytes: int64(1-i) << 30, Tasks: 1}))
		require.Equal(t, value(b.mount, "/", swapMax)+value(b.mount, "/", "io.weight"), want+"default 100")
	}
	require.NoError(t, os.Remove(filepath.Join(b.mount, "io.weight")))
	require.Equal(t, fmt.Sprint(b.Set("/", &api.Limits{IOWeight: 50})), "this kernel has no io.weight")
}

// TestMountOf: of several mounts the usual one is meant; a part of the hierarchy is none.
func TestMountOf(t *testing.T) {
	const part, odd, unified = "9 1 0:30 /a /x rw - cgroup2 cgroup2 rw\n", "9 1 0:30 / /odd rw - cgroup2 c rw\n", "9 1 0:30 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 c rw\n"
	for text, want := range map[string]string{part: "", odd: "/odd", part + unified + odd: "/sys/fs/cgroup/unified", "8 1 0:3 / /sys/fs/cgroup/cpu rw - cgroup c rw\n": ""} {
		require.Equal(t, mountOf(text), want)
	}
}
