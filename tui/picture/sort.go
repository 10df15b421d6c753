package picture

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

type Sort uint8

// The sort orders: largest first, but by age and by a name the first comes first.
const (
	ByAge Sort = iota
	ByName
	ByLive
	ByOrphans
	ByCPU
	ByRSS
	ByPorts
	ByLeftovers
	ByZombies
	sorts
)

// The rank of ended sessions, and the order of a session that is new since the last
// sort.
const (
	endedRank = 1 << 30
	newcomer  = 1 << 20
)

// ranked is the place of a session among its siblings: below all others when it
// is over.
func (r *Row) ranked() int32 {
	if r.Session.State == api.StateEnded {
		return endedRank + r.order
	}
	return r.order
}

// sortSessions puts the sessions at the top in order.
func (p *Picture) sortSessions(by Sort) {
	if p.sorted = by != ByAge; !p.sorted {
		for _, r := range p.sessions {
			p.rank(r, 0)
		}
		return
	}
	rows := make([]*Row, 0, len(p.sessions))
	for _, r := range p.sessions {
		if r.up == p.top {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int { return p.compare(by, a, b) })
	for i, r := range rows {
		p.rank(r, int32(i+1))
	}
}

func (p *Picture) rank(r *Row, order int32) {
	r.order = order
	if r.rank == r.ranked() || r.up == nil {
		return
	}
	at := r.up
	r.unlink()
	r.rank = r.ranked()
	r.link(at)
}

func (p *Picture) compare(by Sort, a, b *Row) int {
	c := 0
	switch by {
	case ByName:
		c = strings.Compare(cmp.Or(a.Session.Name, a.Session.ID), cmp.Or(b.Session.Name, b.Session.ID))
	case ByLive:
		c = cmp.Compare(b.Session.Live, a.Session.Live)
	case ByOrphans:
		c = cmp.Compare(b.Session.Orphans, a.Session.Orphans)
	case ByLeftovers:
		c = cmp.Compare(b.Session.Leftovers, a.Session.Leftovers)
	case ByZombies:
		c = cmp.Compare(b.Session.Zombies, a.Session.Zombies)
	case ByCPU:
		c = cmp.Or(cmp.Compare(p.CPU(b), p.CPU(a)), cmp.Compare(b.usage.seconds, a.usage.seconds))
	case ByRSS:
		c = cmp.Compare(b.RSS(), a.RSS())
	case ByPorts:
		c = comparePorts(a.Listens(), b.Listens())
	}
	return cmp.Or(c, cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid), a.compare(b))
}

// comparePorts puts rows that listen before those that do not, and the lowest port first.
func comparePorts(a, b []int) int {
	if len(a) == 0 || len(b) == 0 {
		return len(b) - len(a)
	}
	return cmp.Compare(a[0], b[0])
}

func (v *View) Order() Sort { return v.order }

// SetOrder sorts the sessions. It shows the first of them, which is what the reader wants to see.
func (v *View) SetOrder(by Sort) {
	v.order = by
	v.Picture.sortSessions(by)
	v.refill()
	if v.sel != nil {
		v.Home()
		v.moved = false
	}
}

// Resort puts the rows in order again. Between two calls new rows come last: a list
// that is resorted with each picture is unreadable.
func (v *View) Resort() {
	top := v.line == v.above(v.height)
	if v.Picture.sorted {
		v.Picture.sortSessions(v.order)
	}
	if f := v.Picture.filter; f != nil { // time has passed, and sessions have changed
		v.Picture.SetFilter(f)
	}
	v.restore()
	if top && v.order != ByAge {
		v.stayOnTop()
	}
	v.settle()
}

// stayOnTop keeps the first rows of a ranking in sight, and the selected row with them,
// wherever it is now. A row that the reader did not choose gives way to the first one.
func (v *View) stayOnTop() {
	line := v.above(v.height)
	if line == v.height && !v.moved {
		v.choose(v.First())
		line = 0
	}
	if line < v.height {
		v.place(line)
	}
}

// calmAfter is how many seconds without a change pass before the window is filled.
const calmAfter = 3

// settle fills the window when no row has come or gone for a while: until then the
// selected row keeps its line.
func (v *View) settle() {
	rows := int(v.Picture.top.size) + len(v.Picture.sessions)
	if v.calm++; rows != v.rows {
		v.rows, v.calm = rows, 0
	}
	if v.calm >= calmAfter && v.sel != nil {
		v.place(v.line)
	}
}
