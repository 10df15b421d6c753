//go:build linux

package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestAccountOf: what the files say. Limits are those in force.
func TestAccountOf(t *testing.T) {
	mount := t.TempDir()
	for file, text := range map[string]string{
		"memory.max": "8589934592\n", "memory.high": "max\n", "cpu.max": "250000 100000\n", "pids.max": "500\n",
		"io.weight": "default 250\n8:0 9\n",
		"cpu.stat":  "usage_usec 31500000\nuser_usec 1\n", "memory.peak": "4096\n", "memory.current": "1024\n", "pids.peak": "9\n",
		"memory.stat": "anon 1000\ninactive_file 24\n", "io.bfq.weight": "default 100\n",
		"memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 7\n", "io.stat": "8:0 rbytes=5 wbytes=6 rios=1\n8:16 rbytes=10 wbytes=0\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(mount, file), []byte(text), 0o644))
	}
	l := limitsOf(mount, "/")
	if l.MemoryBytes != 8<<30 || l.MemoryHighBytes != 0 || l.CPUs != 2.5 || l.Tasks != 500 || l.IOWeight != 250 || len(l.Unset) != 1 {
		t.Errorf("%+v", l)
	}
	require.NoError(t, os.WriteFile(filepath.Join(mount, "io.cost.qos"), []byte("8:0 enable=1\n"), 0o644))
	require.Equal(t, len(limitsOf(mount, "/").Unset), 0)
	a, current := accountOf(mount, "/")
	require.Equal(t, a, api.Account{
		CPUSeconds: 31.5, MemoryBytes: 1000, MemoryPeakBytes: 4096, ReadBytes: 15, WrittenBytes: 6, TasksPeak: 9, OOMKills: 2,
	})
	require.Equal(t, current, uint64(1024))
	var x group // before Linux 5.19
	x.take(api.Account{}, 7)
	x.take(api.Account{}, 5)
	if x.account.MemoryPeakBytes != 7 || !x.account.Sampled {
		t.Errorf("%+v", x.account)
	}
}

func TestCheck(t *testing.T) {
	for _, l := range []api.Limits{
		{MemoryBytes: 1<<20 - 1}, {MemoryHighBytes: -1}, {CPUs: 4097}, {CPUs: -1}, {CPUs: math.NaN()},
		{Tasks: -1}, {IOWeight: -1}, {IOWeight: 10001},
	} {
		if Check(&l) == nil {
			t.Errorf("%+v", l)
		}
	}
	require.NoError(t, Check(&api.Limits{MemoryBytes: 1 << 20, CPUs: 0.01, Tasks: 1, IOWeight: 10000}))
}
