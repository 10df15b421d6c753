package lineage

type ChangeKind uint8

// The kinds of change that a snapshot brings.
const (
	Found      ChangeKind = iota // a member that no event had reported
	Reparented                   // From, To: its parents
	Vanished                     // it was live and is dead; status unknown
	Gone                         // it was a zombie and is reaped
	Moved                        // it is in another session now
)

// Change is one difference between the graph and a snapshot, now repaired.
type Change struct {
	Kind     ChangeKind
	ID       ID
	Session  SessionID
	From, To ID // Reparented
}

// Resync repairs the graph from a snapshot of every process of the host. now (boottime,
// ns) must not be later than the moment at which the snapshot was begun; an earlier
// time is safe, it only leaves more work to the next snapshot.
//
// Events after now stay valid: a process with a later sign of life is not touched, and
// one whose end was reported is not revived. Births are only created, never
// overwritten. Processes outside sessions are not entered; they only prove that they
// exist.
func (g *Graph) Resync(now uint64, seen []Seen) []Change {
	g.epoch++
	p := pass{g: g, now: now}
	for i := range seen {
		p.merge(&seen[i])
	}
	for _, slab := range g.slabs {
		for i := range slab {
			n := &slab[i]
			if n.id.PID == 0 || n.mark == g.epoch || n.at > now || n.id.Start > now {
				continue
			}
			switch n.state {
			case Live:
				p.note(Vanished, n)
			case Zombie:
				p.note(Gone, n)
			}
			g.conclude(n, Exited, now)
		}
	}
	g.measured = now
	g.trim()
	return p.changes
}

// pass is one resync.
type pass struct {
	g       *Graph
	now     uint64
	changes []Change
}

func (p *pass) note(k ChangeKind, n *node) {
	p.changes = append(p.changes, Change{Kind: k, ID: n.id, Session: n.sessionID()})
}

func (p *pass) merge(s *Seen) {
	g := p.g
	if !s.ID.names() {
		return
	}
	n := g.index.find(s.ID)
	if n == nil {
		if s.Session == 0 {
			return
		}
		n = g.get(s.ID)
	}
	n.mark = g.epoch
	if n.reaped || n.known && n.at > p.now {
		return
	}
	if s.Session == 0 && !n.known {
		// A creator outside sessions is not tracked: no event would end it.
		before := n.looks
		n.Comm = s.Comm
		if n.looks != before {
			g.mark(n)
		}
		return
	}
	fresh, session := !n.known, n.session
	if fresh {
		g.meet(n)
		n.reconciled = true
		g.mark(n)
	}
	p.enter(n, s)
	if fresh {
		p.note(Found, n)
	} else if n.session != session {
		p.note(Moved, n)
	}
	p.parent(n, s)
	if n.exit { // nothing more to learn about a dead process
		return
	}
	before := n.looks
	n.describe(s.Looks, max(p.now, s.ID.Start))
	g.measure(n, p.now, s.CPUTime, s.RSS)
	if !s.Stopped && n.signal != nil && n.signalAt <= p.now { // its SIGCONT was not reported
		n.signal = nil
		g.mark(n)
	}
	if n.looks != before {
		g.mark(n)
	}
	if !s.Dead && !s.Zombie {
		g.alive(n, p.now)
		return
	}
	if n.state == Live {
		p.note(Vanished, n)
	}
	g.conclude(n, Zombie, p.now)
}

// enter notes session, evidence and, if no event reported it, the creator.
func (p *pass) enter(n *node, s *Seen) {
	// A live process without a session was released; for a dead one the kernel may no
	// longer know the session.
	if s.Session != 0 || !s.Dead && !s.Zombie {
		p.g.enter(n, s.Session, p.now)
	}
	if s.Evidence != NoEvidence {
		p.g.justify(n, s.Evidence, s.Source, p.now)
	}
	if !n.creatorID.names() {
		p.g.unseen(n, s.Evidence == Adopted)
		p.g.link(n, s.Creator, s.Session, s.Evidence)
	}
}

func (p *pass) parent(n *node, s *Seen) {
	if !s.Parent.names() || p.now < n.parentAt {
		return
	}
	if n.parent.names() && n.parent != s.Parent {
		n.move(Move{Time: p.now, From: n.parent, To: s.Parent, Inferred: true})
		p.changes = append(p.changes, Change{
			Kind: Reparented, ID: n.id, Session: n.sessionID(), From: n.parent, To: s.Parent,
		})
	}
	if n.parent != s.Parent {
		p.g.mark(n)
	}
	n.parent, n.parentAt = s.Parent, p.now
}
