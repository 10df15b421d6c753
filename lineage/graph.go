package lineage

import (
	"cmp"
	"unsafe"

	"github.com/lineage-ebpf/lineage/lineage/memory"
)

// DefaultHistory is the history of a graph whose Options do not set it.
const DefaultHistory = 16384

// Options bound the memory of a graph.
//
// A process that the kernel still has, and its dead ancestors, are never forgotten.
// Only a long fork-and-exit chain could make these many, so they have one limit: of
// more than 1,024 consecutive dead ancestors of one session with a single remembered
// child each, the 512 next to the root and the 512 next to the living stay. Those
// between are left out and counted (Node.Hops, Edge.Hops). Sessions, creators and the
// evidence of all others stay the same.
type Options struct {
	// History is how many dead processes are kept besides those that a present descendant needs; 0: DefaultHistory. The
	// first to go is the one whose last descendant went first. A late event for a forgotten process starts a new entry.
	History int
	// Text is how many bytes of command lines are kept before the history is
	// shortened; 0: 64 MiB. Those of live processes may take half as much again, shared by
	// uid; beyond that only the beginning of a new command line is kept.
	Text int
}

// Graph is the picture. It has a single owner: no method may run at the same
// time as another one, not even two that only read.
type Graph struct {
	options  Options
	index    index
	sessions map[SessionID]*session
	images   images
	history  list // dead, not needed; the first is forgotten next
	kept     list // dead, needed by a present descendant

	tracking   bool // a reader takes changes
	dirty      list // changed, the first to change first
	forgot     []ID
	forgotLost bool // forgot was full

	slabs      [][]node
	free       *node // through older
	epoch      uint64
	measured   uint64 // when the last snapshot was taken
	collapseAt int32
	live       int
	ghosts     int
	collapsed  uint64
	queue      []*node // scratch space of inherit, claim and collapse
}

func New(o Options) *Graph {
	o.History = cmp.Or(o.History, DefaultHistory)
	o.Text = cmp.Or(o.Text, 64<<20)
	return &Graph{
		options:    o,
		index:      newIndex(),
		sessions:   make(map[SessionID]*session),
		images:     images{byKey: make(map[string]*Image), share: memory.NewShare(o.Text + o.Text/2)},
		history:    list{k: shelf},
		kept:       list{k: shelf},
		dirty:      list{k: change},
		collapseAt: collapseMin,
	}
}

// Node returns what is known of a process; false: unknown, or forgotten.
func (g *Graph) Node(id ID) (Node, bool) {
	n := g.index.find(id)
	if n == nil {
		return Node{}, false
	}
	return n.view(), true
}

// Claim is the claim about a process, and its creator; nil: none.
func (g *Graph) Claim(id ID) (c *Claim, creator ID) {
	n := g.index.find(id)
	if n == nil {
		return nil, ID{}
	}
	return n.claim, n.creatorID
}

// ByPID returns the process that has pid now, else the youngest remembered one
// that had it.
func (g *Graph) ByPID(pid uint32) (ID, bool) {
	n := g.index.youngest(pid)
	if n == nil {
		return ID{}, false
	}
	return n.id, true
}

type Stats struct {
	Nodes     int    // processes in memory
	Live      int    // of these, live
	Kept      int    // dead, kept for a present descendant
	History   int    // dead, not needed
	Ghosts    int    // known only from events of other processes, or from the end
	Sessions  int    // sessions with a process in memory
	Images    int    // distinct command lines
	Collapsed uint64 // ancestors left out since New
	Bytes     uint64 // memory, roughly; peaks stay allocated
}

func (g *Graph) Stats() Stats {
	return Stats{
		Nodes: g.index.n, Live: g.live, Kept: int(g.kept.n), History: int(g.history.n),
		Ghosts: g.ghosts, Sessions: len(g.sessions), Images: len(g.images.byKey),
		Collapsed: g.collapsed,
		Bytes: uint64(len(g.slabs)*slabSize)*uint64(unsafe.Sizeof(node{})) +
			uint64(len(g.index.buckets))*8 + uint64(g.images.share.Used()),
	}
}

// slabSize is how many nodes are allocated at once.
const slabSize = 256

// get returns the process id; if it is new, it is added as a ghost.
func (g *Graph) get(id ID) *node {
	if n := g.index.find(id); n != nil {
		return n
	}
	if g.free == nil {
		slab := make([]node, slabSize)
		g.slabs = append(g.slabs, slab)
		for i := range slab {
			slab[i].older, g.free = g.free, &slab[i]
		}
	}
	n := g.free
	g.free = n.older
	n.older = nil
	n.id = id
	g.index.add(n)
	g.mark(n)
	g.ghosts++
	g.supersede(n)
	g.settle(n)
	return n
}

// supersede handles a PID that two processes had: the older one is dead, whether its
// end was seen or not.
func (g *Graph) supersede(n *node) {
	for m := n.newer; m != nil; m = m.newer {
		if m.id.PID == n.id.PID {
			g.conclude(n, Exited, m.id.Start)
			break
		}
	}
	for m := n.older; m != nil; m = m.older {
		if m.id.PID == n.id.PID {
			g.conclude(m, Exited, n.id.Start)
			break
		}
	}
}

// recycle forgets n. No other process may need it.
func (g *Graph) recycle(n *node) {
	g.detach(n)
	for n.children.head != nil { // its children keep the creator's ID
		g.mark(n.children.head)
		g.detach(n.children.head)
	}
	g.join(n, nil)
	g.shelve(n, nil)
	g.index.remove(n)
	g.images.release(n.inherited)
	for _, x := range n.execs {
		g.images.release(x.image)
	}
	if n.state == Live {
		g.live--
	}
	if !n.known {
		g.ghosts--
	}
	g.unmark(n)
	*n = node{execs: n.execs[:0], moves: n.moves[:0], older: g.free}
	g.free = n
}
