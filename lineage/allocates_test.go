package lineage

import "testing"

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
