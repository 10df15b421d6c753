package lineage

// maxForgotten bounds the forgotten processes that wait to be taken.
const maxForgotten = 65536

type Changes struct {
	Changed []ID // processes for which Node returns something new; each once, the first to change first
	Forgot  []ID // processes that Node no longer knows
	// Lost: more was forgotten than can be remembered. Everything taken before is void;
	// the whole graph is returned as changed, starting with this call.
	Lost bool
	More bool // there is more to take at once
}

// Track starts or stops noting changes, for one reader. At the start everything in the
// graph counts as changed. The cost in memory is the same however often a process
// changes and however late Take is called.
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

// Take moves at most limit processes that changed, and all that were forgotten, into c.
// It reuses the slices of c.
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

// mark notes that Node would return something new for n.
func (g *Graph) mark(n *node) {
	if g.tracking && !n.dirty {
		n.dirty = true
		g.dirty.insert(n, g.dirty.tail)
	}
}

// touch is get for a caller that will change the process.
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
