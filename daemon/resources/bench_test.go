//go:build linux

package resources

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
)

// BenchmarkOf reads one small process: what collecting costs per member.
func BenchmarkOf(b *testing.B) {
	me, err := identify(uint32(os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	r := New("/proc", func(uint32) (tracer.Identity, error) { return me, nil })
	ids := make([]tracer.Identity, 100)
	for i := range ids {
		ids[i] = me
	}
	for b.Loop() {
		r.Of(b.Context(), ids)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/process")
}

// BenchmarkHost looks for a file that no process has: a scan of the whole host.
func BenchmarkHost(b *testing.B) {
	r := New("/proc", identify)
	for b.Loop() {
		r.Holders(b.Context(), Wanted{Path: "/nonexistent"})
	}
}
