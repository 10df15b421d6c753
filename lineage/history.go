package lineage

// settle updates what follows from a change of n's state or need: whether n is held,
// its shelf, and the same for its creators. It climbs the chain only while something
// changes, which is once for each node that becomes held or is no longer held.
func (g *Graph) settle(n *node) {
	for n != nil {
		held := n.present() || n.need > 0
		switch {
		case n.present():
			g.shelve(n, nil)
		case held:
			g.shelve(n, &g.kept)
		default:
			g.shelve(n, &g.history)
		}
		if held == n.held {
			return
		}
		n.held = held
		n = n.creator
		if n == nil {
			return
		}
		if held {
			n.need++
		} else {
			n.need--
		}
	}
}

// shelve moves n to the end of l, unless it is there already. nil: to no shelf.
func (g *Graph) shelve(n *node, l *list) {
	if n.shelved == l {
		return
	}
	if n.shelved != nil {
		n.shelved.remove(n)
	}
	n.shelved = l
	if l != nil {
		l.insert(n, l.tail)
	}
}

// trim keeps the bounds of Options. A creator is shelved after its children, so first
// in, first out leaves no remembered process without its ancestors. Only a process that
// late events add after its creator was forgotten has none.
func (g *Graph) trim() {
	for int(g.history.n) > g.options.History || g.history.n > 0 && g.images.share.Used() > g.options.Text {
		g.recycle(g.history.head)
	}
	if g.kept.n > g.collapseAt {
		g.collapse()
	}
}

// Forget moves all processes of a closed session to the history. Those that a present
// process of another session needs are kept. If a process turns out to be alive, the
// next event or snapshot brings it back.
func (g *Graph) Forget(session SessionID) {
	s := g.sessions[session]
	if s == nil {
		return
	}
	for n := s.present.head; n != nil; n = s.present.head {
		g.conclude(n, Exited, n.at)
	}
	g.trim()
}

const (
	runMax      = 1024 // consecutive hops that are never collapsed
	runEnd      = runMax / 2
	collapseMin = 4 * runMax
)

// hop reports whether n is a dead ancestor that only continues the chain: complete, in
// its creator's session, with one remembered child.
func (n *node) hop() bool {
	return n.state == Exited && n.exit && n.birth && n.evidence == Fork &&
		n.children.n == 1 &&
		n.creator != nil && n.creator.session == n.session
}

// collapse shortens the runs of hops. It runs when the kept ancestors have
// doubled since it last ran, so it costs each of them O(1).
func (g *Graph) collapse() {
	ends := g.queue[:0]
	for n := g.kept.head; n != nil; n = n.links[shelf].next {
		if n.hop() && !n.children.head.hop() {
			ends = append(ends, n)
		}
	}
	for _, n := range ends {
		g.shorten(n)
	}
	clear(ends)
	g.queue = ends[:0]
	g.collapseAt = max(collapseMin, 2*g.kept.n)
}

// shorten collapses the run of hops that ends, downwards, in n.
func (g *Graph) shorten(n *node) {
	run := 0
	for a := n; a != nil && a.hop(); a = a.creator {
		run++
	}
	if run <= runMax {
		return
	}
	for range runEnd - 1 {
		n = n.creator
	}
	hops, up := n.hops, n.creator
	g.detach(n)
	for range run - runMax {
		a := up
		up = a.creator
		hops += 1 + a.hops
		g.recycle(a)
		g.collapsed++
	}
	g.attach(n, up)
	n.hops = hops
	g.mark(n)
}
