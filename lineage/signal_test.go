package lineage

import "testing"

// A stop is known until SIGCONT, whatever the order of the events, and a snapshot corrects it.
func TestStops(t *testing.T) {
	stop := Event{Type: Stop, Time: 210, ID: id(20), Session: 1, Signal: &Signal{Number: 19, Time: 205}}
	goOn := Event{Type: Continue, Time: 220, ID: id(20), Session: 1, Signal: &Signal{Number: 18, Time: 215}}
	again := Event{Type: Stop, Time: 230, ID: id(20), Session: 1, Signal: &Signal{Number: 20, Time: 225}}
	killed := exit(20, 310)
	killed.Signal = &Signal{Number: 9, Time: 305}
	signal := func(g *Graph) uint8 {
		n, _ := g.Node(id(20))
		if n.Signal == nil {
			return 0
		}
		return n.Signal.Number
	}
	born := []Event{root(10, 9, 1, 100), fork(20, 10, 200)}
	for _, c := range []struct {
		events []Event
		want   uint8
	}{
		{[]Event{stop}, 19},
		{[]Event{stop, goOn}, 0},
		{[]Event{stop, goOn, again}, 20},
		{[]Event{stop, goOn, again, killed}, 9},
		{[]Event{stop, exit(20, 310)}, 0},
	} {
		permute(c.events, func(order []Event) {
			g := graph(append(born, order...)...)
			if got := signal(g); got != c.want {
				t.Errorf("%d, want %d: %v", got, c.want, order)
			}
			n, _ := g.Node(id(20))
			again := graph(born...)
			again.Restore(&n)
			equal(t, "restored", signal(again), c.want)
		})
	}
	g := graph(append(born, stop)...)
	seen := Seen{ID: id(20), Session: 1, Stopped: true}
	g.Resync(250, []Seen{seen})
	equal(t, "still stopped", signal(g), 19)
	seen.Stopped = false
	g.Resync(200, []Seen{seen}) // older than the stop
	equal(t, "stopped since", signal(g), 19)
	g.Resync(300, []Seen{seen})
	equal(t, "goes on", signal(g), 0)
}

// TestLastKilled: the last of several sessions, by the time of its exit, not later than asked for.
func TestLastKilled(t *testing.T) {
	died := func(pid uint32, at uint64, status uint32, session SessionID) Event {
		e := exit(pid, at)
		e.Status, e.Session = status, session
		return e
	}
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), fork(21, 10, 201), fork(22, 10, 202), fork(23, 10, 203),
		died(21, 310, 9, 1), died(20, 300, 9, 1), died(22, 320, 15, 2), died(23, 330, 3<<8, 1))
	last := func(until uint64, sig uint8, sessions ...SessionID) uint32 {
		n, _, known := g.LastKilled(until, func(of uint8, _ *Signal) bool { return of == sig }, sessions...)
		equal(t, "known", known, 3+len(sessions))
		return n.ID.PID
	}
	equal(t, "the last", last(400, 9, 1), 21)
	equal(t, "before that", last(309, 9, 1), 20)
	equal(t, "of another session", last(400, 15, 1), 0)
	equal(t, "of both", last(400, 15, 1, 2), 22)
	equal(t, "an exit code", last(400, 3, 1, 2), 0)
}
