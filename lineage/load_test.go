package lineage

import "testing"

// The load is what a process used between two snapshots; of one that was in none before, since its start.
func TestLoad(t *testing.T) {
	const second = 1e9
	g := New(Options{})
	for step, s := range []struct {
		at, cpu uint64
		want    float64
		busy    uint64
	}{
		{100 * second, 45 * second, 0.5, 100 * second},                     // in no snapshot before: since its start
		{102 * second, 49 * second, 2, 102 * second},                       // two threads
		{102*second + leastSpan/2, 49*second + leastSpan, 2, 102 * second}, // too short to say anything
		{110 * second, 49*second + leastSpan, 0, 102 * second},
		{200 * second, 50*second - 1, 0.01, 102 * second}, // less than a second of CPU in all
		{210 * second, 50 * second, 0, 210 * second},
	} {
		g.Resync(s.at, []Seen{{ID: ID{PID: 7, Start: 10 * second}, Session: 1, CPUTime: s.cpu}})
		n, ok := g.Node(ID{PID: 7, Start: 10 * second})
		if d := n.Use.Load - s.want; !ok || d > 0.001 || d < -0.001 || n.Use.Busy != s.busy {
			t.Errorf("snapshot %d: %v, busy %d, want %+v", step, n.Use.Load, n.Use.Busy, s)
		}
	}
}
