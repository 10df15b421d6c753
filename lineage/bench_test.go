package lineage

import (
	"runtime"
	"strconv"
	"testing"
)

// BenchmarkApplyForkExit is the steady state: a member forks children that
// exit and are reaped. One op is one event.
func BenchmarkApplyForkExit(b *testing.B) { benchChurn(b, nil) }

// BenchmarkApplyForkExecExit adds an exec with a command line seen before.
func BenchmarkApplyForkExecExit(b *testing.B) {
	e := execs(1, 0, "cc1", "-quiet", "-O2", "main.c")
	benchChurn(b, &e)
}

// churn returns a cycle of the events of one child of creator, and their number, in
// steady state.
func churn(g *Graph, creator uint32, run *Event) (cycle func() int) {
	now, pid := uint64(1<<32), uint32(1000) // later than all else
	cycle = func() int {
		now += 10
		if pid++; pid == 33000 {
			pid = 1000
		}
		child := ID{pid, now}
		g.Apply(&Event{Type: Birth, Time: now, ID: child, Session: 1, Evidence: Fork, Creator: id(creator), Parent: id(creator), Looks: called("sh")})
		events := 3
		if run != nil {
			e := *run
			e.ID, e.Time = child, now+1
			g.Apply(&e)
			events++
		}
		g.Apply(&Event{Type: Exit, Time: now + 2, ID: child, Session: 1})
		g.Apply(&Event{Type: Reaped, Time: now + 3, ID: child})
		return events
	}
	for range 2 * DefaultHistory {
		cycle()
	}
	return cycle
}

func TestApplyAllocatesNothing(t *testing.T) {
	exec := execs(1, 0, "cc1", "-quiet", "-O2", "main.c")
	for name, run := range map[string]*Event{"fork and exit": nil, "with an exec": &exec} {
		cycle := churn(graph(root(10, 9, 1, 100)), 10, run)
		if n := testing.AllocsPerRun(10000, func() { cycle() }); n != 0 {
			t.Errorf("%s: %v allocations a process", name, n)
		}
	}
}

func benchChurn(b *testing.B, run *Event) { benchCycle(b, graph(root(10, 9, 1, 100)), 10, run) }

// BenchmarkApplyAmong is the same with more and more live processes, sessions or ancestors.
func BenchmarkApplyAmong(b *testing.B) {
	const crowd = 100_000 // its first PID
	for _, n := range []uint32{100, 1000, 10_000, 100_000} {
		b.Run("live="+strconv.Itoa(int(n)), func(b *testing.B) {
			g := graph(root(10, 9, 1, 100))
			for i := range n {
				apply(g, []Event{fork(crowd+i, 10, 1000)})
			}
			benchCycle(b, g, 10, nil)
		})
	}
	for _, n := range []uint32{1, 100, 1000, 10_000} {
		b.Run("sessions="+strconv.Itoa(int(n)), func(b *testing.B) {
			g := graph(root(10, 9, 1, 100))
			for i := range n {
				apply(g, []Event{root(crowd+i, 9, SessionID(2+i), 1000)})
			}
			benchCycle(b, g, 10, nil)
		})
	}
	for _, n := range []uint32{1, 100, 1000, 5000} {
		b.Run("depth="+strconv.Itoa(int(n)), func(b *testing.B) {
			g := graph(root(crowd, 9, 1, 100))
			for i := range n {
				apply(g, []Event{fork(crowd+i+1, crowd+i, 1000)})
			}
			benchCycle(b, g, crowd+n, nil)
		})
	}
}

func benchCycle(b *testing.B, g *Graph, creator uint32, run *Event) {
	cycle := churn(g, creator, run)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		done += cycle()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkApplyHops is a chain in which every process forks the next one and exits:
// all but the last are dead ancestors that are still needed.
func BenchmarkApplyHops(b *testing.B) {
	g := graph(root(10, 9, 1, 100))
	last, now, pid := id(10), uint64(1000), uint32(1000)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += 4 {
		now += 10
		if pid++; pid == 33000 {
			pid = 1000
		}
		child := ID{pid, now}
		g.Apply(&Event{Type: Birth, Time: now, ID: child, Session: 1, Evidence: Fork, Creator: last, Parent: last, Looks: called("hop")})
		if last.PID != 10 {
			g.Apply(&Event{Type: Exit, Time: now + 1, ID: last, Session: 1})
			g.Apply(&Event{Type: Reparent, Time: now + 1, ID: child, From: last, Parent: id(1)})
			g.Apply(&Event{Type: Reaped, Time: now + 2, ID: last})
		}
		last = child
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(g.Stats().Nodes), "nodes")
}

// BenchmarkLive100k builds 100,000 live processes, each with a command line of
// its own and a move, and reports their memory on the heap.
func BenchmarkLive100k(b *testing.B) {
	const n = 100_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		g := graph(root(10, 9, 1, 100))
		for pid := uint32(1000); pid < 1000+n; pid++ {
			at := uint64(pid) * 10
			apply(g, []Event{fork(pid, max(10, pid/2), at),
				execs(pid, at+1, "node", "/usr/lib/agent/worker.js", "--id", strconv.Itoa(int(pid))), reparent(pid, 10, 1, at+2)})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := float64(after.HeapAlloc - before.HeapAlloc)
		b.ReportMetric(heap/1e6, "MB")
		b.ReportMetric(heap/n, "bytes/node")
		b.ReportMetric(float64(g.Stats().Bytes)/n, "stats-bytes/node")
		runtime.KeepAlive(g)
	}
}

func BenchmarkTree10k(b *testing.B) {
	g := graph(root(10, 9, 1, 100))
	for pid := uint32(1000); pid < 11000; pid++ {
		apply(g, []Event{fork(pid, max(10, pid/2), uint64(pid)*10)})
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Tree(false, 1)
	}
}

func BenchmarkResync10k(b *testing.B) {
	g := graph(root(10, 9, 1, 100))
	all := []Seen{seen(10, 9, 9)}
	for pid := uint32(1000); pid < 11000; pid++ {
		all = append(all, seen(pid, max(10, pid/2), 1))
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Resync(1<<40, all)
	}
}
