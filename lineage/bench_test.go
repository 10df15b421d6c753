package lineage

import "testing"

// BenchmarkApplyForkExit is the steady state: a member forks children that
// exit and are reaped. One op is one event.
func BenchmarkApplyForkExit(b *testing.B) { benchChurn(b, nil) }

// BenchmarkApplyForkExecExit adds an exec with a command line seen before.
func BenchmarkApplyForkExecExit(b *testing.B) {
	e := execs(1, 0, "cc1", "-quiet", "-O2", "main.c")
	benchChurn(b, &e)
}

func benchChurn(b *testing.B, run *Event) {
	g := graph(root(10, 9, 1, 100))
	comm := []byte("sh")
	now, pid := uint64(1000), uint32(1000)
	children := 0
	cycle := func() int {
		now += 10
		if pid++; pid == 33000 {
			pid = 1000
		}
		child := ID{pid, now}
		g.Apply(&Event{Type: Birth, Time: now, ID: child, Session: 1, Evidence: Fork, Creator: id(10), Parent: id(10), Comm: comm})
		events := 3
		if run != nil {
			e := *run
			e.ID, e.Time = child, now+1
			g.Apply(&e)
			events++
		}
		g.Apply(&Event{Type: Exit, Time: now + 2, ID: child, Session: 1})
		g.Apply(&Event{Type: Reaped, Time: now + 3, ID: child})
		children++
		return events
	}
	for range 2 * DefaultHistory {
		cycle()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		done += cycle()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkApplyHops is a chain in which every process forks the next one and
// exits: all but the last are dead ancestors in need.
func BenchmarkApplyHops(b *testing.B) {
	g := graph(root(10, 9, 1, 100))
	comm := []byte("hop")
	last, now, pid := id(10), uint64(1000), uint32(1000)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += 4 {
		now += 10
		if pid++; pid == 33000 {
			pid = 1000
		}
		child := ID{pid, now}
		g.Apply(&Event{Type: Birth, Time: now, ID: child, Session: 1, Evidence: Fork, Creator: last, Parent: last, Comm: comm})
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
