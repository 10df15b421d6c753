//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestTable: rows by one key, columns by the others, the median and quartiles in the table's unit; ratios as they
// are, and no samples of another unit or benchmark.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out, values: map[string][]float64{}}
	for _, took := range []time.Duration{4000, 2000} {
		r.took("Kill/members=10/by=end", took)
		r.sample("Kill/members=10/by=end", 1, 20000, "forks/s")
		r.took("Kill/members=10/by=cgroup.kill", 1000)
		r.sample("Kill/members=10/by=end_:_cgroup.kill", 1, float64(took)/1000, "ratio")
	}
	r.took("Kill/members=1000/by=end", 1234500)
	r.took("Killed/members=1", 1)
	require.Equal(t, r.table("Kill", "members", "µs"), `| members | end, µs | cgroup.kill, µs | end : cgroup.kill |
| --- | ---: | ---: | ---: |
| 10 | 3.00 (2.50–3.50) | 1.00 (1.00–1.00) | 3.00 (2.50–3.50) |
| 1000 | 1234 (1234–1234) |  |  |
`)
	if want := "BenchmarkKill/members=10/by=end 1 4000 ns/op\nBenchmarkKill/members=10/by=end 1 20000 forks/s\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

func TestSpread(t *testing.T) {
	require.Equal(t, cell([]float64{4, 1, 3, 2, 5}, 1), "3.00 (2.00–4.00)")
	for v, want := range map[float64]string{0: "0.00", -3: "-3.00", 0.5: "0.50", 9.999: "10.00", 12.34: "12.3", 345.6: "346", 1234567: "1234567"} {
		if got := plain(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
