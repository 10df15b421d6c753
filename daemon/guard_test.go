//go:build linux

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// kin makes a host with a daemon, PID 50, started by a command of a shell, and a shell that
// another daemon had descended from.
func kin() *kerneltest.Kernel {
	k := kerneltest.New()
	k.Add(10, 1, "lngtest-shell")
	k.Add(11, 1, "lngtest-old")
	k.Add(20, 10, "lngtest-run")
	k.Add(50, 20, "lngtest-daemon")
	k.Edit(11, func(p *kerneltest.Proc) { p.Entered, p.Flags = true, tracer.FlagProtected })
	return k
}

func protectedIn(k *kerneltest.Kernel) (all []uint32) {
	for _, pid := range []uint32{1, 10, 11, 20, 50} {
		if p := k.Proc(pid); p != nil && !p.Dead && p.Flags&tracer.FlagProtected != 0 {
			all = append(all, pid)
		}
	}
	return all
}

// TestProtectKin: a daemon that starts protects itself and its ancestors, and no other process.
func TestProtectKin(t *testing.T) {
	k := kin()
	_, err := protect(k, 50)
	require.NoError(t, err)
	if got := fmt.Sprint(protectedIn(k)); got != "[1 10 20 50]" {
		t.Errorf("protected: %v", got)
	}
}

// TestGuard: a process that has lost its place among the ancestors, because one in between has exited, is not
// protected, and is looked at again.
func TestGuard(t *testing.T) {
	k := kin()
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
	parents(map[uint32]uint32{1: 0, 10: 1, 20: 10, 50: 20})
	freed := make(chan bool, 16)
	go guard(t.Context(), k, procfs.FS(dir), 50, func() { freed <- true }, zerolog.Nop())
	for _, want := range []string{"[1 10 20 50]", "[1 50]"} {
		require.Soon(t, freed, "not looked at again")
		if got := fmt.Sprint(protectedIn(k)); got != want {
			t.Errorf("protected: %v, want %v", got, want)
		}
		k.Exit(20, 0)
		parents(map[uint32]uint32{50: 1})
	}
}
