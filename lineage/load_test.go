package lineage

import "testing"

// The load is what a process used between two snapshots; of one that was in none before, since its start.
func TestLoad(t *testing.T) {
	const second = 1e9
	g := New(Options{})
	for step, s := range []struct {
		at, cpu uint64
		want    float64
	}{
		{100 * second, 45 * second, 0.5},                     // in no snapshot before: since its start
		{102 * second, 49 * second, 2},                       // two threads
		{102*second + leastSpan/2, 49*second + leastSpan, 2}, // too short to say anything
		{110 * second, 49*second + leastSpan, 0},
	} {
		g.Resync(s.at, []Seen{{ID: ID{PID: 7, Start: 10 * second}, Session: 1, CPUTime: s.cpu}})
		n, ok := g.Node(ID{PID: 7, Start: 10 * second})
		if d := n.Load - s.want; !ok || d > 0.001 || d < -0.001 {
			t.Errorf("snapshot %d: %v, want %v", step, n.Load, s.want)
		}
	}
}
