package text

import (
	"github.com/lineage-ebpf/lineage/api"
)

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
		if n.PID == ref.PID && (ref.StartNS == 0 || n.StartNS == ref.StartNS) && (root == nil ||
			n.StartNS > root.StartNS) {
			root = n
		}
	}
	if root == nil {
		return nil, false
	}
	sub := &api.Tree{Head: t.Head, Session: t.Session, Roots: []api.Ref{root.Ref}}
	var add func(ref api.Ref)
	add = func(ref api.Ref) {
		if n := byRef[ref]; n != nil {
			delete(byRef, ref) // each once
			sub.Nodes = append(sub.Nodes, *n)
			for _, child := range n.Children {
				add(child)
			}
		}
	}
	add(root.Ref)
	return sub, true
}

// Trees shows trees; one: the document is the tree itself, not a list.
func Trees(trees []api.Tree, one bool) *Listing {
	l := &Listing{Text: func(p *Page) {
		for i := range trees {
			if i > 0 {
				p.Line("")
			}
			d := drawing{p: p, t: &trees[i], nodes: index(&trees[i]), drawn: map[api.Ref]bool{}}
			d.draw()
		}
	}}
	for i := range trees {
		t := &trees[i]
		t.Head = api.NewHead("tree")
		for j := range t.Nodes {
			t.Nodes[j].Head = api.Head{Kind: "process"}
			l.add(t.Nodes[j], t.Nodes[j].Ref.String())
		}
	}
	l.Doc = documentOf(!one, "trees", trees)
	return l
}
