package picture

import (
	"hash/maphash"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
)

// seed makes signatures of two processes equal by their owner's wish only if
// he runs the same command.
var seed = maphash.MakeSeed()

// signature is what an exited leaf has in common with those that collapse with
// it: its command and how it ended. It is 0 for all other rows.
func (p *Picture) signature(r *Row) uint64 {
	if r.Kind != ProcessRow || r.Process.State != api.StateExited || r.first != nil || r == p.held && !grouped(r) {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(seed)
	word := func(s string) {
		h.WriteString(strconv.Itoa(len(s)))
		h.WriteByte(' ')
		h.WriteString(s)
	}
	pr := r.Process
	word(pr.Comm)
	word(pr.Signal)
	if pr.ExitCode != nil {
		word(strconv.Itoa(*pr.ExitCode))
	}
	for _, a := range pr.Argv {
		word(a)
	}
	return max(h.Sum64(), 1)
}

func grouped(r *Row) bool { return r.up != nil && r.up.Kind == GroupRow }

// put links r under at, or into the group of its like there.
func (p *Picture) put(r, at *Row) {
	r.sig = p.signature(r)
	if r.sig == 0 {
		r.link(at)
		return
	}
	if at.leaves == nil {
		at.leaves = map[uint64]*Row{}
	}
	other := at.leaves[r.sig]
	switch {
	case other == nil:
		at.leaves[r.sig] = r
		r.link(at)
	case other.Kind == GroupRow:
		r.link(other)
		p.order(other)
	default:
		g := &Row{Kind: GroupRow, sig: r.sig, index: -1}
		other.unlink()
		other.link(g)
		r.link(g)
		g.start, g.pid = g.first.start, g.first.pid
		g.link(at)
		g.folded = !p.turned[g.Key()]
		at.leaves[r.sig] = g
	}
}

// order keeps a group where its oldest member would be.
func (p *Picture) order(g *Row) {
	if g.start == g.first.start && g.pid == g.first.pid {
		return
	}
	up := g.up
	g.unlink()
	g.start, g.pid = g.first.start, g.first.pid
	g.link(up)
}

// take unlinks r and gives the row that it was under, groups aside. A group of
// one is none.
func (p *Picture) take(r *Row) (at *Row) {
	if !grouped(r) {
		at = r.up
		if r.sig != 0 && r.Kind == ProcessRow {
			delete(at.leaves, r.sig)
		}
		r.unlink()
		return at
	}
	g := r.up
	at = g.up
	r.unlink()
	if g.count > 1 {
		p.order(g)
		return at
	}
	last := g.first
	p.dropped(g, last)
	g.gone = true
	last.unlink()
	g.unlink()
	last.link(at)
	at.leaves[g.sig] = last
	return at
}
