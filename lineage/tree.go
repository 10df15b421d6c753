package lineage

import "slices"

type Branch struct {
	ID      ID
	Creator ID // the row above it in the tree; zero: a top
	Depth   int
}

// Tree returns the processes of the named sessions, each before what it created,
// siblings in the order of their start. Present ones (live, zombie) are shown with the
// dead ancestors that join them; all: everything remembered. A process is a top if its
// creator is in none of the sessions. Where ancestors were left out (Node.Hops) a row
// is placed under the nearest remembered one.
func (g *Graph) Tree(all bool, sessions ...SessionID) []Branch {
	g.epoch++
	tops, rows := g.tops(all, sessions)
	tree := make([]Branch, 0, rows)
	for _, top := range tops {
		depth := 0
		for n := top; n != nil; {
			b := Branch{ID: n.id, Depth: depth}
			if depth > 0 {
				b.Creator = n.creator.id
			}
			tree = append(tree, b)
			if c := g.shown(n.children.head); c != nil {
				n = c
				depth++
				continue
			}
			for n != top && g.shown(n.links[siblings].next) == nil {
				n = n.creator
				depth--
			}
			if n == top {
				break
			}
			n = g.shown(n.links[siblings].next)
		}
	}
	return tree
}

// tops marks the rows of a tree and returns those without a creator among
// them, by start, and the number of rows.
func (g *Graph) tops(all bool, sessions []SessionID) (tops []*node, rows int) {
	var marked []*node
	for _, id := range sessions {
		s := g.sessions[id]
		if s == nil {
			continue
		}
		for n := s.present.head; n != nil; n = n.links[roll].next {
			for a := n; a != nil && a.mark != g.epoch && a.session != nil &&
				slices.Contains(sessions, a.session.id); a = a.creator {
				a.mark = g.epoch
				marked = append(marked, a)
			}
		}
		if !all {
			continue
		}
		for n := s.past.head; n != nil; n = n.links[roll].next {
			if n.mark != g.epoch {
				n.mark = g.epoch
				marked = append(marked, n)
			}
		}
	}
	for _, n := range marked {
		if n.creator == nil || n.creator.mark != g.epoch {
			tops = append(tops, n)
		}
	}
	slices.SortFunc(tops, func(a, b *node) int { return a.id.compare(b.id) })
	return tops, len(marked)
}

// shown returns n or its first younger sibling that is marked.
func (g *Graph) shown(n *node) *node {
	for n != nil && n.mark != g.epoch {
		n = n.links[siblings].next
	}
	return n
}
