//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A footprint is what an instance uses of its host: bytes, and the daemon's open descriptors.
type footprint struct {
	open     int // descriptors
	kernel   int // its maps
	resident int // RSS of the daemon
}

func (f footprint) String() string {
	const MiB = 1 << 20
	return fmt.Sprintf("%d descriptors, maps %.1f MiB, RSS %.1f", f.open, float64(f.kernel)/MiB, float64(f.resident)/MiB)
}

func footprintOf(i *stage.Instance, k kernelSide, pid int) footprint {
	i.T.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(i.T, err)
	return footprint{
		open:     len(open),
		kernel:   k.size(i),
		resident: stage.Number(i.T, strings.TrimSuffix(stage.ProcStatus(pid, "VmRSS"), " kB")) << 10,
	}
}

// A kernelSide is the pinned maps of an instance, by name.
type kernelSide map[string]*ebpf.Map

func kernelSideOf(i *stage.Instance) kernelSide {
	i.T.Helper()
	k := kernelSide{}
	pins, _ := filepath.Glob(filepath.Join(i.Pins(), "*", "map_*"))
	if len(pins) == 0 {
		i.T.Fatalf("no maps are pinned in %s", i.Pins())
	}
	for _, path := range pins {
		m, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
		require.NoError(i.T, err)
		i.T.Cleanup(func() { m.Close() })
		k[strings.TrimPrefix(filepath.Base(path), "map_")] = m
	}
	return k
}

// entries is how many entries each hash map has, and how many sessions there are.
func (k kernelSide) entries() (map[string]int, error) {
	all := map[string]int{}
	for name, m := range k {
		var key, value []byte
		var session bpf.LineageSession
		entries := m.Iterate()
		switch {
		case name == bpf.LineageMapSessions:
			all[name] = 0
			for entries.Next(&key, &session) {
				if session.Id != 0 {
					all[name]++
				}
			}
		case m.Type() == ebpf.Hash:
			all[name] = 0
			for entries.Next(&key, &value) {
				all[name]++
			}
		}
		if err := entries.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return all, nil
}

// size is the kernel's own count of its memory, in bytes.
func (k kernelSide) size(i *stage.Instance) (sum int) {
	i.T.Helper()
	for name, m := range k {
		info, err := m.Info()
		require.NoError(i.T, err)
		size, known := info.Memlock()
		if !known {
			i.T.Fatalf("the size of %s is not known", name)
		}
		sum += int(size)
	}
	return sum
}

// TestIdle: a daemon without sessions sleeps: in most seconds none of its threads wakes up. How many switches each
// wake-up has depends on the load of the machine.
func TestIdle(t *testing.T) {
	i := stage.New(t)
	pid := i.Daemon().Process.Pid
	awake := func() bool {
		before := switches(t, pid)
		time.Sleep(time.Second)
		return switches(t, pid) != before
	}
	i.Until("second without a switch", func() bool { return !awake() })
	const seconds = 16
	n := 0
	for range seconds {
		if awake() {
			n++
		}
	}
	if n > seconds/2 {
		t.Errorf("awake in %d of %d seconds", n, seconds)
	}
}

// switches are the voluntary context switches of all threads of a process.
func switches(t *testing.T, pid int) (sum int) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	for _, thread := range threads {
		sum += stage.Number(t, stage.ProcStatus(stage.Number(t, thread.Name()), "voluntary_ctxt_switches"))
	}
	return sum
}
