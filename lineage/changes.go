package lineage

// maxForgotten bounds the forgotten processes that wait to be taken.
const maxForgotten = 65536

// Changes is what Take gives.
type Changes struct {
	Changed []ID // what Node says of them is new; each once, the first to change first
	Forgot  []ID // Node knows them no more
	// Lost: more was forgotten than is remembered. Whatever was taken before is
	// void; all that there is will be taken as changed, from this call on.
	Lost bool
	More bool // there is more to take at once
}

// Track begins to note what changes, for one reader, and has everything that
// there is wait to be taken; or it stops. Noting costs a process in memory
// nothing more, however often it changes and however late Take comes.
func (g *Graph) Track(on bool) {
	for n := g.dirty.head; n != nil; n = g.dirty.head {
		g.dirty.remove(n)
		n.dirty = false
	}
	g.forgot, g.forgotLost, g.tracking = nil, false, on
	if !on {
		return
	}
	for _, slab := range g.slabs {
		for i := range slab {
			if slab[i].id.PID != 0 {
				g.mark(&slab[i])
			}
		}
	}
}

// Take moves at most limit processes that changed, and all that were forgotten,
// into c, whose slices it reuses.
func (g *Graph) Take(limit int, c *Changes) {
	c.Changed, c.Lost = c.Changed[:0], g.forgotLost
	if g.forgotLost {
		g.Track(true)
	}
	c.Forgot = append(c.Forgot[:0], g.forgot...)
	g.forgot = g.forgot[:0]
	for n := g.dirty.head; n != nil && len(c.Changed) < limit; n = g.dirty.head {
		g.dirty.remove(n)
		n.dirty = false
		c.Changed = append(c.Changed, n.id)
	}
	c.More = g.dirty.head != nil
}

// mark notes a change of what Node says of n.
func (g *Graph) mark(n *node) {
	if g.tracking && !n.dirty {
		n.dirty = true
		g.dirty.insert(n, g.dirty.tail)
	}
}

// touch is get for somebody who is going to change the process.
func (g *Graph) touch(id ID) *node {
	n := g.get(id)
	g.mark(n)
	return n
}

// unmark is for a process that is forgotten.
func (g *Graph) unmark(n *node) {
	if !g.tracking {
		return
	}
	if n.dirty {
		g.dirty.remove(n)
		n.dirty = false
	}
	if len(g.forgot) == maxForgotten {
		g.forgot, g.forgotLost = g.forgot[:0], true
	}
	g.forgot = append(g.forgot, n.id)
}
