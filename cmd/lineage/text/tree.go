package text

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// index has the nodes of a tree by process.
func index(t *api.Tree) map[api.Ref]*api.Node {
	m := make(map[api.Ref]*api.Node, len(t.Nodes))
	for i := range t.Nodes {
		m[t.Nodes[i].Ref] = &t.Nodes[i]
	}
	return m
}

// Subtree is the part of t below the process ref. If ref has no start, it is the newest
// process with that PID.
func Subtree(t *api.Tree, ref api.Ref) (*api.Tree, bool) {
	byRef := index(t)
	var root *api.Node
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.PID == ref.PID && (ref.StartNS == 0 || n.StartNS == ref.StartNS) && (root == nil || n.StartNS > root.StartNS) {
			root = n
		}
	}
	if root == nil {
		return nil, false
	}
	sub := &api.Tree{Head: t.Head, Session: t.Session, Roots: []api.Ref{root.Ref}}
	seen := map[api.Ref]bool{}
	for stack := []api.Ref{root.Ref}; len(stack) > 0; {
		ref := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n, ok := byRef[ref]
		if !ok || seen[ref] {
			continue
		}
		seen[ref] = true
		sub.Nodes = append(sub.Nodes, *n)
		for i := len(n.Children) - 1; i >= 0; i-- {
			stack = append(stack, n.Children[i])
		}
	}
	return sub, true
}

// trees is the document of several trees.
type treesDocument struct {
	api.Head
	Items []api.Tree `json:"items"`
}

// byCall splits a tree: what belongs to no tool call, and then each call's processes. about is the
// calls of each part.
func byCall(t *api.Tree) (parts []api.Tree, about []string) {
	nodes, at := index(t), map[string]int{"": 0}
	parts, about = []api.Tree{{Session: t.Session}}, []string{""}
	of := func(ref api.Ref) string {
		if n := nodes[ref]; n != nil {
			return display.Calls(n.Calls)
		}
		return ""
	}
	for i := range t.Nodes {
		n := t.Nodes[i]
		calls := display.Calls(n.Calls)
		if _, known := at[calls]; !known {
			at[calls] = len(parts)
			parts, about = append(parts, api.Tree{}), append(about, calls)
		}
		part := &parts[at[calls]]
		if n.Creator == nil || nodes[*n.Creator] == nil || of(*n.Creator) != calls {
			part.Roots = append(part.Roots, n.Ref)
		}
		n.Children = slices.DeleteFunc(slices.Clone(n.Children), func(child api.Ref) bool { return of(child) != calls })
		part.Nodes = append(part.Nodes, n)
	}
	return parts, about
}

// Trees shows trees, with calls grouped by tool call; one: the document is the tree itself, not a list.
func Trees(trees []api.Tree, one, calls bool) *Listing {
	l := &Listing{Text: func(p *Page) {
		for i := range trees {
			if i > 0 {
				p.Line("")
			}
			parts, about := []api.Tree{trees[i]}, []string{""}
			if calls {
				parts, about = byCall(&trees[i])
			}
			for j := range parts {
				if about[j] != "" {
					p.Wrap(0, p.paint(bold, about[j]))
				}
				newDrawing(p, &parts[j]).draw()
			}
		}
	}}
	for i := range trees {
		t := &trees[i]
		t.Head = Head("tree")
		for j := range t.Nodes {
			t.Nodes[j].Head = api.Head{Kind: "process"}
			l.Items = append(l.Items, t.Nodes[j])
			l.Names = append(l.Names, t.Nodes[j].Ref.String())
		}
	}
	if one {
		l.Doc = trees[0]
	} else {
		l.Doc = treesDocument{Head("trees"), trees}
	}
	return l
}
