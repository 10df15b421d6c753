//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raw")
	raw := `goos: linux
cpus: 2
date: 2026-01-02
BenchmarkKill/members=10/by=end 1 2000 ns/op
BenchmarkKill/members=10/by=cgroup.kill 1 1000 ns/op
BenchmarkKill/members=10/by=end 1 4000 ns/op
BenchmarkKill/members=10/by=cgroup.kill 1 4000 ns/op
`
	require.NoError(t, os.WriteFile(path, []byte(raw), 0o600))
	s, err := load(path)
	require.NoError(t, err)
	if s.host["date"] != "2026-01-02" {
		t.Errorf("host %v", s.host)
	}
	if got, want := s.killTable(), "| 10 | 3.00 (2.50–3.50) | 2.50 (1.75–3.25) | 1.50 (1.25–1.75) |"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	// A part that was not run writes no table.
	for name, table := range map[string]string{"hooks": s.hookTable(), "processes": s.growthTable("live", "processes:"), "requests": s.scaleTable(), "memory": s.memoryTable(), "joins": s.joinsTable(), "cost": s.cost()} {
		if table != "" {
			t.Errorf("%s:\n%s", name, table)
		}
	}
}

// Samples taken under emulation are shown as multiples, and in no table of ns.
func TestEmulated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raw")
	raw := `cpu: QEMU TCG CPU version 2.5+
cpus: 2
memory: 8140892 kB
BenchmarkGrowth/live=100/program=fork_birth 300 20000 ns/run
BenchmarkGrowth/live=100/do=pass 1 200000 ns/op
BenchmarkGrowth/live=100/do=pass 1 200 processes
BenchmarkGrowth/live=5000/program=fork_birth 300 25000 ns/run
BenchmarkGrowth/live=5000/do=pass 1 10000000 ns/op
BenchmarkGrowth/live=5000/do=pass 1 5000 processes
`
	require.NoError(t, os.WriteFile(path, []byte(raw), 0o600))
	s, err := load(path)
	require.NoError(t, err)
	for _, table := range s.tables() {
		if table.text != "" && !strings.HasPrefix(table.name, "emulated") {
			t.Errorf("%s:\n%s", table.name, table.text)
		}
	}
	if got, want := s.growthTable("live", "processes:"), "| 5,000 | 1.25 |  |  |  | 5,000 | 2.00 |  |"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

func TestSpread(t *testing.T) {
	require.Equal(t, spreadOf([]float64{4, 1, 3, 2, 5}), (spread{2, 3, 4}))
	for v, want := range map[float64]string{0.5: "0.50", 12.34: "12.3", 345.6: "346", 1234.5: "1,235", 1234567: "1,234,567"} {
		if got := plain(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
