//go:build linux

package tracer_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// BenchmarkEndAgainstCgroupKill ends the same members in turn by End and by
// cgroup.kill. The time is to the end of file on a pipe that all of them hold:
// the kernel's own word that the last one let go.
func BenchmarkEndAgainstCgroupKill(b *testing.B) {
	root := unified(b)
	for _, n := range []int{1, 10, 100, 500} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			tr := tracertest.New(b, tracer.Options{})
			var ours, theirs, ratios []float64
			for b.Loop() {
				o := timeEnd(b, n, "", func(w *workload) func() {
					id := create(b, tr, w, tracer.SessionSpec{})
					b.Cleanup(func() { settled(b, tr, id); tr.Release(id) })
					return func() { must(b, tr.End(id, tracer.CauseEnd, 0)) }
				})
				dir := filepath.Join(root, fmt.Sprintf("lngtest-%d", os.Getpid()))
				must(b, os.Mkdir(dir, 0o755))
				c := timeEnd(b, n, dir, func(*workload) func() {
					return func() { must(b, os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0)) }
				})
				until(b, "cgroup is empty", func() bool { return os.Remove(dir) == nil })
				ours, theirs, ratios = append(ours, o), append(theirs, c), append(ratios, o/c)
			}
			b.ReportMetric(median(ours), "µs-end")
			b.ReportMetric(median(theirs), "µs-cgroup.kill")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// timeEnd starts n sleepers under a shell, in a cgroup if one is given, and
// gives the µs from the end's call to the last one's death.
func timeEnd(b *testing.B, n int, cgroup string, prepare func(*workload) func()) float64 {
	w := start(b, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do sleep 60 & i=$((i+1)); done; echo; read go`, n-1))
	if cgroup != "" {
		must(b, os.WriteFile(cgroup+"/cgroup.procs", []byte(strconv.Itoa(int(w.pid()))), 0))
	}
	end := prepare(w)
	w.goOn()
	w.line()
	began := time.Now()
	end()
	if _, err := io.Copy(io.Discard, w.out); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	w.cmd.Wait()
	return float64(took.Nanoseconds()) / 1000
}

func unified(b *testing.B) string {
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(dir + "/cgroup.controllers"); err == nil {
			return dir
		}
	}
	b.Skip("no cgroup v2 hierarchy")
	return ""
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
