package picture

import (
	"hash/maphash"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
)

// seed is random, so that no process can choose a command whose signature collides with
// another's.
var seed = maphash.MakeSeed()

// endedSignature is the signature of every ended session: they are one group.
const endedSignature = 1

// signature is what a row has in common with those that collapse with it: live
// processes run the same command; exited ones also ended in the same way, and nothing
// below them is alive. It is 0 for all other rows, and for the row that the reader
// looks at, so that it does not vanish into a group.
func (p *Picture) signature(r *Row) uint64 {
	switch {
	case r.Kind == SessionRow && r.Session.State == api.StateEnded && r.Session.Parent == "" && !p.looksAt(r):
		return endedSignature
	case r.Kind != ProcessRow || r.exited() && r.live > 0 || p.looksAt(r):
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
	word(string(pr.State))
	word(pr.Comm)
	word(pr.Signal)
	if pr.Orphan {
		h.WriteByte('o')
	}
	if pr.ExitCode != nil {
		word(strconv.Itoa(*pr.ExitCode))
	}
	if e := pr.Evidence; e != nil {
		word(e.Kind)
	}
	for _, a := range pr.Argv {
		word(a)
	}
	return max(h.Sum64(), endedSignature+1)
}

// looksAt reports whether the held row is at or below r, and r is in no group.
func (p *Picture) looksAt(r *Row) bool { return p.held != nil && !grouped(r) && p.held.below(r) }

func grouped(r *Row) bool { return r.up != nil && r.up.Kind == GroupRow }

// put links r under at, or into the group of equal rows there.
func (p *Picture) put(r, at *Row) {
	r.sig = p.signature(r)
	if r.sig == 0 {
		r.link(at)
		return
	}
	if at.alike == nil {
		at.alike = map[uint64]*Row{}
	}
	other := at.alike[r.sig]
	switch {
	case other == nil:
		at.alike[r.sig] = r
		r.link(at)
	case other.Kind == GroupRow:
		r.link(other)
		p.arrange(other)
	default:
		g := &Row{Kind: GroupRow, sig: r.sig}
		other.unlink()
		other.link(g)
		r.link(g)
		g.lead()
		g.link(at)
		g.folded = !p.turned[g.Key()]
		at.alike[r.sig] = g
	}
}

// lead moves a group's sort keys to those of its first member.
func (r *Row) lead() { r.start, r.pid, r.rank = r.first.start, r.first.pid, r.first.rank }

// arrange keeps a group where its first member would be.
func (p *Picture) arrange(g *Row) {
	if g.start == g.first.start && g.pid == g.first.pid && g.rank == g.first.rank {
		return
	}
	up := g.up
	g.unlink()
	g.lead()
	g.link(up)
}

// take unlinks r and returns the row that it was under, not counting groups. A group of
// one is dissolved.
func (p *Picture) take(r *Row) (at *Row) {
	if !grouped(r) {
		at = r.up
		p.unlike(r)
		r.unlink()
		return at
	}
	g := r.up
	at = g.up
	r.unlink()
	if g.count > 1 {
		p.arrange(g)
		return at
	}
	last := g.first
	p.dropped(g, last)
	g.gone = true
	last.unlink()
	g.unlink()
	last.link(at)
	at.alike[g.sig] = last
	return at
}

// unlike makes r, which is in no group, a row that nothing collapses with.
func (p *Picture) unlike(r *Row) {
	if r.sig != 0 && r.up.alike[r.sig] == r {
		delete(r.up.alike, r.sig)
	}
	r.sig = 0
}

// regroup moves r to its equals, and then exited rows above it: an exited row may be
// grouped only while nothing below it is alive.
func (p *Picture) regroup(r *Row) {
	for r != nil && !r.gone {
		up := r.up
		switch {
		case r.Kind == GroupRow:
		case up == nil || r.Kind == ProcessRow && r.sig == p.signature(r) && !r.exited():
			return
		case r.sig != p.signature(r):
			at := p.take(r)
			p.put(r, at)
			up = r.up
		}
		r = up
	}
}

// Hold keeps r, and the rows above it, out of groups until another row is held, and
// counts r as live: a row that the reader looks at stays when it exits.
func (p *Picture) Hold(r *Row) {
	if r == p.held {
		return
	}
	old := p.held
	p.held = r
	for up := r; up != nil && up.Kind != topRow; up = up.up {
		if up.Kind != GroupRow && !grouped(up) {
			p.unlike(up)
		}
	}
	p.countLive(r)
	if old == nil || old.gone {
		return
	}
	p.countLive(old)
	for up := old; up != nil && up.Kind != topRow; {
		next := up.up
		if up.Kind != GroupRow && up.sig != p.signature(up) {
			p.put(up, p.take(up))
		}
		up = next
	}
}

// countLive updates whether a row counts as live.
func (p *Picture) countLive(r *Row) {
	if r == nil {
		return
	}
	switch live := r == p.held || r.Kind == ProcessRow && !r.exited(); {
	case live == r.counted:
	case live:
		r.counted = true
		r.add(0, 1, 0)
	default:
		r.counted = false
		r.add(0, -1, 0)
	}
}
