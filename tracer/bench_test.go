//go:build linux

package tracer_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// BenchmarkHooks gives the time that each program takes by the kernel's own
// count (bpf_stats): ns a run, for strangers and for members of a session,
// while somebody reads the events.
func BenchmarkHooks(b *testing.B) {
	for _, member := range []bool{false, true} {
		name := "stranger"
		if member {
			name = "member"
		}
		b.Run(name, func(b *testing.B) { benchmarkHooks(b, member) })
	}
}

func benchmarkHooks(b *testing.B, member bool) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	tr := tracertest.New(b, tracer.Options{})
	go func() {
		var ev tracer.Event
		for tr.Read(&ev) == nil {
		}
	}()
	// Each line makes a shell fork ten times, and exec with arguments.
	w := start(b, `while read go; do for i in 0 1 2 3 4 5 6 7 8 9; do (:); /bin/true --some argument --of-an agent-like --command line; done; echo; done`)
	if member {
		create(b, tr, w, tracer.SessionSpec{})
	}
	w.goOn() // it is past its first read
	before := runs(b, tr)
	for b.Loop() {
		w.goOn()
		w.line()
	}
	for name, after := range runs(b, tr) {
		if n := after.RunCount - before[name].RunCount; n > 0 {
			b.ReportMetric(float64(after.Runtime-before[name].Runtime)/float64(n), name+"-ns/run")
		}
	}
	b.ReportMetric(0, "ns/op")
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

func runs(b *testing.B, tr *tracer.Tracer) map[string]*ebpf.ProgramStats {
	b.Helper()
	s, err := tr.Stats()
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkRootExit gives the time from the root's exit to the last member's
// death, which the exit hook brings about: from their events' own times.
func BenchmarkRootExit(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tr := tracertest.New(b, tracer.Options{})
			if tr.Features().Level < 4 {
				b.Skip(tr.Features().Missing)
			}
			events := collect(b, tr)
			var total, worst time.Duration
			rounds := 0
			for b.Loop() {
				took := rootExit(b, tr, events, n)
				total += took
				worst = max(worst, took)
				rounds++
			}
			b.ReportMetric(float64(total.Microseconds())/float64(rounds), "µs/end")
			b.ReportMetric(float64(worst.Microseconds()), "µs-worst")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func rootExit(b *testing.B, tr *tracer.Tracer, events <-chan tracer.Event, n int) time.Duration {
	w := start(b, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do sleep 60 & i=$((i+1)); done; echo; read go; exit 0`, n))
	id := create(b, tr, w, tracer.SessionSpec{})
	w.goOn()
	w.line()
	until(b, "every member has its program", func() bool { s, err := tr.Session(id); return err == nil && s.Live == int64(n)+1 })
	w.goOn()
	w.cmd.Wait()
	io.Copy(io.Discard, w.out)
	settled(b, tr, id)
	var root, last uint64
	for ev := range events {
		if ev.Session != id {
			continue
		}
		if ev.Type == tracer.EventExit && ev.Flags&tracer.FlagRoot != 0 {
			root = ev.Time
		} else if ev.Type == tracer.EventExit {
			last = max(last, ev.Time)
		}
		if ev.Type == tracer.EventSession && ev.State == tracer.StateEmpty {
			break
		}
	}
	if err := tr.Release(id); err != nil {
		b.Fatal(err)
	}
	return time.Duration(last - root)
}

// BenchmarkSnapshot walks all processes of this host.
func BenchmarkSnapshot(b *testing.B) {
	tr := tracertest.New(b, tracer.Options{})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		if err := tr.Snapshot(0, func(*tracer.Process) error { n++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n), "processes")
}
