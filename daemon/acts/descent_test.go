//go:build linux

package acts

import (
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

type nodes struct {
	registry.Graph
	all map[tracer.Identity]lineage.Node
}

func (g nodes) Node(id lineage.ID) (lineage.Node, bool) {
	n, ok := g.all[id]
	return n, ok
}

// What a process descends from is known although the graph has forgotten some dead creators in
// between: the kernel has the one next to it, and the graph the nearest that it remembers.
func TestDescent(t *testing.T) {
	id := func(pid uint32) tracer.Identity { return tracer.Identity{PID: pid, Start: 1} }
	d := descent{b: &Branch{Subject: Subject{Root: id(10)}}, known: make(map[tracer.Identity]bool),
		creators: map[tracer.Identity]tracer.Identity{id(11): id(10), id(13): id(12), id(14): id(10), id(23): id(22), id(31): id(30), id(32): id(31)},
		graph: nodes{all: map[tracer.Identity]lineage.Node{
			id(13): {Creator: id(12), Under: id(11), Hops: 1}, // 12 is forgotten
			id(14): {Creator: id(10), Under: id(9), Hops: 1},  // 10 is
			id(15): {Creator: id(10), Under: id(9), Hops: 1},  // as is 15 in the kernel
			id(11): {Creator: id(10), Under: id(10)},
			id(23): {Creator: id(22), Under: id(9), Hops: 1},
			id(31): {Creator: id(30), Under: id(30)},
		}},
	}
	for pid, want := range map[uint32]bool{10: true, 11: true, 13: true, 14: true, 15: true, 9: false, 23: false, 31: false, 32: false, 40: false} {
		if got := d.has(id(pid)); got != want {
			t.Errorf("%d: %v", pid, got)
		}
	}
}
