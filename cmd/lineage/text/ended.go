package text

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// KeepEnded reduces the tree of an ended session to its root, the processes that its end had
// to end, and their ancestors. The receipt names those of the session itself; those of
// sessions nested in it died after the end began.
func KeepEnded(t *api.Tree, r *api.Report) {
	nodes := index(t)
	keep := make(map[api.Ref]bool)
	mark := func(ref api.Ref) {
		for n := nodes[ref]; n != nil && !keep[n.Ref]; {
			keep[n.Ref] = true
			if n.Creator == nil {
				return
			}
			n = nodes[*n.Creator]
		}
	}
	if len(t.Roots) > 0 {
		mark(t.Roots[0]) // the session's root, or the oldest process in the history
	}
	for i := range r.Processes {
		mark(r.Processes[i].Ref)
	}
	if r.Ended != nil {
		began := r.Ended.Add(-time.Duration(r.DurationMS * float64(time.Millisecond)))
		for i := range t.Nodes {
			if at := t.Nodes[i].Exited; at != nil && !at.Before(began) {
				mark(t.Nodes[i].Ref)
			}
		}
	}
	dropped := func(ref api.Ref) bool { return !keep[ref] }
	t.Nodes = slices.DeleteFunc(t.Nodes, func(n api.Node) bool { return dropped(n.Ref) })
	t.Roots = slices.DeleteFunc(t.Roots, dropped)
	for i := range t.Nodes {
		t.Nodes[i].Children = slices.DeleteFunc(t.Nodes[i].Children, dropped)
	}
}
