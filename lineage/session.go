package lineage

import "iter"

type session struct {
	id      SessionID
	present list // live, zombies
	past    list // the others
	count   Count
}

// Count counts the present processes of one session, nested ones excluded, and sums up
// what the last snapshot said of them. What an exit or a move takes away is subtracted
// at once.
type Count struct {
	Live    int
	Orphans int // live, not a root, and the creator is dead
	Zombies int
	RSS     uint64 // bytes, of the live
	CPUTime uint64 // ns, of those whose Exit was not reported: it says how much they used in the end
	Load    int    // thousandths of a CPU that the live used between the last two snapshots
}

// standing is how a process counts in its session.
type standing uint8

const (
	listed standing = 1 << iota // on one of the session's lists
	isPresent
	isLive
	isOrphan
	isZombie
	isOpen // no Exit was reported
)

func (n *node) stands() standing {
	st := listed
	if !n.exit {
		st |= isOpen
	}
	switch {
	case n.orphan():
		return st | isPresent | isLive | isOrphan
	case n.state == Live:
		return st | isPresent | isLive
	case n.state == Zombie:
		return st | isPresent | isZombie
	}
	return st
}

// session returns the record of a session; nil for 0.
func (g *Graph) session(id SessionID) *session {
	if id == 0 {
		return nil
	}
	s := g.sessions[id]
	if s == nil {
		s = &session{id: id, present: list{k: roll}, past: list{k: roll}}
		g.sessions[id] = s
	}
	return s
}

// LastKilled is the process of sessions that a signal killed last, up to a time, of those that is wants; and how
// many processes of theirs are in memory.
func (g *Graph) LastKilled(until uint64, is func(sig uint8, from *Signal) bool,
	sessions ...SessionID) (last Node, found bool, known int) {
	var at *node
	for _, id := range sessions {
		s := g.sessions[id]
		if s == nil {
			continue
		}
		known += int(s.present.n + s.past.n)
		for _, l := range [...]*list{&s.present, &s.past} {
			for n := l.head; n != nil; n = n.links[roll].next {
				sig := uint8(n.status & 0x7f)
				if n.exit && sig != 0 && n.exited <= until &&
					(at == nil || n.exited >= at.exited) && is(sig, n.signal) {
					at = n
				}
			}
		}
	}
	if at == nil {
		return Node{}, false, known
	}
	return at.view(), true, known
}

// join moves n to a session; nil: to none.
func (g *Graph) join(n *node, s *session) {
	n.session = s
	g.enroll(n)
}

// enrollChildren updates n's children when they become orphans, or stop being orphans.
func (g *Graph) enrollChildren(n *node) {
	for c := n.children.head; c != nil; c = c.links[siblings].next {
		g.enroll(c)
	}
}

// enroll brings the lists and counts of n's session up to date.
func (g *Graph) enroll(n *node) {
	var stands standing
	if n.session != nil {
		stands = n.stands()
	}
	if n.enrolled == n.session && n.standing == stands {
		return
	}
	g.mark(n)
	if s := n.enrolled; s != nil {
		s.list(n.standing).remove(n)
		s.count.add(n, -1)
		if s.present.n+s.past.n == 0 && s != n.session {
			delete(g.sessions, s.id)
		}
	}
	n.enrolled, n.standing = n.session, stands
	if s := n.session; s != nil {
		l := s.list(stands)
		l.insert(n, l.tail)
		s.count.add(n, 1)
	}
}

// leastSpan (ns) is the least time between two snapshots that says how many CPUs were used.
const leastSpan = 100e6

// quiet (ns) is the CPU time that an idle process uses less than.
const quiet = 1e9

func (g *Graph) measure(n *node, at, cpuTime, rss uint64) {
	if s := n.enrolled; s != nil {
		s.count.use(n, -1)
		defer s.count.use(n, 1)
	}
	since, before := g.measured, n.cpuTime
	if before == 0 || n.id.Start > since { // it was in no snapshot yet
		since, before = n.id.Start, 0
	}
	if at >= since+leastSpan && cpuTime >= before {
		n.load = float32(cpuTime-before) / float32(at-since)
	}
	if n.used.busy == 0 || cpuTime >= n.used.cpuTime+quiet {
		n.used.busy, n.used.cpuTime = at, cpuTime
	}
	n.cpuTime, n.rss = cpuTime, rss
}

func (s *session) list(st standing) *list {
	if st&isPresent != 0 {
		return &s.present
	}
	return &s.past
}

// add counts n as its standing says, or with d = -1 no longer.
func (c *Count) add(n *node, d int) {
	if n.standing&isLive != 0 {
		c.Live += d
	}
	if n.standing&isOrphan != 0 {
		c.Orphans += d
	}
	if n.standing&isZombie != 0 {
		c.Zombies += d
	}
	c.use(n, d)
}

func (c *Count) use(n *node, d int) {
	if n.standing&isLive != 0 {
		c.RSS += uint64(d) * n.rss
		c.Load += d * int(n.load*1000)
	}
	if n.standing&isOpen != 0 {
		c.CPUTime += uint64(d) * n.cpuTime
	}
}

// Count counts the present processes of a session, nested ones excluded.
func (g *Graph) Count(session SessionID) Count {
	if s := g.sessions[session]; s != nil {
		return s.count
	}
	return Count{}
}

// Members lists the live processes of a session, nested ones excluded. The
// graph must not change meanwhile.
func (g *Graph) Members(session SessionID) iter.Seq[ID] { return g.list(session, isLive) }

// Orphans lists the live processes of a session whose creator is dead, except its root.
// The graph must not change meanwhile.
func (g *Graph) Orphans(session SessionID) iter.Seq[ID] { return g.list(session, isOrphan) }

// Zombies lists the processes of a session that wait to be reaped by their
// parent. The graph must not change meanwhile.
func (g *Graph) Zombies(session SessionID) iter.Seq[ID] { return g.list(session, isZombie) }

func (g *Graph) list(session SessionID, want standing) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		s := g.sessions[session]
		if s == nil {
			return
		}
		for n := s.present.head; n != nil; n = n.links[roll].next {
			if n.standing&want != 0 && !yield(n.id) {
				return
			}
		}
	}
}
