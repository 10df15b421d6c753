//go:build linux

package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const old = 11 // had another daemon as a descendant

// kin makes a host with a daemon that was started by a command of a shell, and a shell from which another daemon
// had descended.
func kin(shell, run, daemon uint32) *kerneltest.Kernel {
	k := kerneltest.New()
	k.Add(shell, 1, "lngtest-shell")
	k.Add(old, 1, "lngtest-old")
	k.Add(run, shell, "lngtest-run")
	k.Add(daemon, run, "lngtest-daemon")
	k.Edit(old, func(p *kerneltest.Proc) { p.Entered, p.Flags = true, tracer.FlagProtected })
	return k
}

func protectedIn(k *kerneltest.Kernel, of ...uint32) (all []uint32) {
	for _, pid := range of {
		if p := k.Proc(pid); p != nil && !p.Dead && p.Flags&tracer.FlagProtected != 0 {
			all = append(all, pid)
		}
	}
	return all
}

// TestProtectKin: a daemon that starts protects itself and its ancestors, and no other process.
func TestProtectKin(t *testing.T) {
	k := kin(10, 20, 50)
	_, err := protect(k, 50)
	require.NoError(t, err)
	if got := fmt.Sprint(protectedIn(k, 1, 10, old, 20, 50)); got != "[1 10 20 50]" {
		t.Errorf("protected: %v", got)
	}
}

// TestGuard: a process that has lost its place among the ancestors, because one in between has exited, is not
// protected, and is looked at again: at the exit, or within a period if that exit cannot be seen.
func TestGuard(t *testing.T) {
	for _, run := range []uint32{asleep(t), 1<<22 + 1} { // no PID is that high
		t.Run(fmt.Sprint(run), func(t *testing.T) { testGuard(t, asleep(t), run, uint32(os.Getpid())) })
	}
}

func testGuard(t *testing.T, shell, run, self uint32) {
	k := kin(shell, run, self)
	dir := t.TempDir()
	parents := func(of map[uint32]uint32) {
		for pid, parent := range of {
			at := filepath.Join(dir, fmt.Sprint(pid))
			text := fmt.Sprintf("%d (x) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, parent, pid)
			require.NoError(t, os.MkdirAll(at, 0o755))
			next := filepath.Join(at, "next")
			require.NoError(t, os.WriteFile(next, []byte(text), 0o644))
			require.NoError(t, os.Rename(next, filepath.Join(at, "stat")))
		}
	}
	parents(map[uint32]uint32{1: 0, shell: 1, run: shell, self: run})
	freed := make(chan bool, 16)
	go guard(t.Context(), k, procfs.FS(dir), self, func() { freed <- true }, zerolog.Nop())
	for _, want := range [][]uint32{{1, shell, run, self}, {1, self}} {
		require.Soon(t, freed, "not looked at again")
		if got := protectedIn(k, 1, shell, old, run, self); !slices.Equal(got, want) {
			t.Errorf("protected: %v, want %v", got, want)
		}
		k.Exit(run, 0)
		parents(map[uint32]uint32{self: 1})
		_ = unix.Kill(int(run), unix.SIGKILL) // if it is one
	}
}

// asleep is a process that exits with the test.
func asleep(t *testing.T) uint32 {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Wait() }) // it was killed
	return uint32(c.Process.Pid)
}
