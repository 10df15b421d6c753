package ocsf

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// BenchmarkFork is the event of a fork with ten ancestors, as in a fork storm.
func BenchmarkFork(b *testing.B) {
	s := newStory()
	refs := []api.Ref{agentRef}
	var r *record.Record
	for n := range 10 {
		child := api.Ref{PID: 5000 + n, StartNS: api.U64(110*second) + api.U64(n)}
		r = s.tell(110*second+uint64(n), "fork", api.Event{Process: &api.Process{Ref: child, Session: "k3x9q2", Comm: "sh", UID: new(1000),
			Creator: &refs[n], Parent: &refs[n], Started: at(110 * second)}})
		refs = append(refs, child)
	}
	e := newEncoder()
	for b.Loop() {
		for l, err := range e.Encode(r) {
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(l.JSON)))
		}
	}
}
