package picture

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Sort is what rows are sorted by: sessions always, processes in a list.
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
	BySession
	sorts
)

// Order is how rows are sorted.
type Order struct {
	By      Sort
	Reverse bool
}

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
func (p *Picture) sortSessions(o Order) {
	if p.sorted = o != (Order{}); !p.sorted {
		for _, r := range p.sessions {
			p.rank(r, 0)
		}
		return
	}
	rows := make([]*Row, 0, len(p.sessions))
	for _, r := range p.sessions {
		if r.up != nil && (r.up.Kind == topRow || r.up.Kind == GroupRow) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int { return p.compare(o, a, b) })
	for i, r := range rows {
		p.rank(r, int32(i+1))
	}
}

func (p *Picture) rank(r *Row, order int32) {
	r.order = order
	if r.rank == r.ranked() || r.up == nil {
		return
	}
	at := p.take(r)
	r.rank = r.ranked()
	p.put(r, at)
}

// compare compares a and b by the order. A row without a figure, because it is over,
// comes last.
func (p *Picture) compare(o Order, a, b *Row) int {
	c := 0
	switch o.By {
	case ByName:
		c = strings.Compare(a.name(), b.name())
	case ByLive:
		c = cmp.Compare(b.session().Live, a.session().Live)
	case ByOrphans:
		c = cmp.Compare(b.session().Orphans, a.session().Orphans)
	case ByLeftovers:
		c = cmp.Compare(b.session().Leftovers, a.session().Leftovers)
	case ByZombies:
		c = cmp.Compare(b.session().Zombies, a.session().Zombies)
	case BySession:
		c = strings.Compare(p.SessionName(a), p.SessionName(b))
	case ByCPU:
		c = cmp.Or(cmp.Compare(p.CPU(b), p.CPU(a)), cmp.Compare(b.usage.seconds, a.usage.seconds))
	case ByRSS:
		c = cmp.Compare(b.RSS(), a.RSS())
	case ByPorts:
		c = comparePorts(a.Listens(), b.Listens())
	}
	if over := a.exited(); o.By > ByName && over != b.exited() {
		if over {
			return 1
		}
		return -1
	}
	if c = cmp.Or(c, cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)); o.Reverse {
		c = -c
	}
	return cmp.Or(c, a.compare(b))
}

// comparePorts puts rows that listen before those that do not, and the lowest port first.
func comparePorts(a, b []int) int {
	if len(a) == 0 || len(b) == 0 {
		return len(b) - len(a)
	}
	return cmp.Compare(a[0], b[0])
}

// SessionName is the name of a row's session, behind its host if it has one; else its id.
func (p *Picture) SessionName(r *Row) string {
	id := r.SessionID()
	if s := p.sessions[id]; s != nil && s.Session.Name != "" {
		return id[:strings.LastIndexByte(id, '/')+1] + s.Session.Name
	}
	return id
}

var noSession api.Session

// session has the figures that only sessions have; those of other rows are 0.
func (r *Row) session() *api.Session { return cmp.Or(r.Session, &noSession) }

func (r *Row) name() string {
	if r.Kind == SessionRow {
		return cmp.Or(r.Session.Name, r.Session.ID)
	}
	return r.Process.Comm
}
