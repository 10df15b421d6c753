package lineage

import (
	"cmp"
	"slices"
)

// Apply adds one event to the graph. Events may arrive in any order, more than once or
// not at all; any order of the same events leads to the same graph. Events of unknown
// type or without identity are ignored.
func (g *Graph) Apply(e *Event) {
	if !e.ID.names() {
		return
	}
	switch e.Type {
	case Birth:
		g.birth(e)
	case Exec:
		g.exec(e)
	case Exit:
		g.exit(e)
	case Reparent:
		g.reparent(e)
	case Reaped:
		g.reap(e)
	case Claimed:
		g.claim(g.touch(e.ID), e.Claim)
	case Stop, Continue:
		g.stop(e)
	default:
		return
	}
	g.trim()
}

// Complete adds to an event what the graph knows of its process, as it is after the event: it is
// called before the next one is applied. What a look found stays marked as reconciled.
func (g *Graph) Complete(e *Event) {
	n := g.index.find(e.ID)
	if n == nil {
		return
	}
	if e.Evidence != Reconciled {
		e.Evidence, e.Source = n.evidence, n.source
	}
	if e.Type != Reparent {
		e.Parent = n.parent
	}
	if e.Type != Continue && e.Signal == nil {
		e.Signal = n.signal
	}
	if n.exit {
		e.Status, e.Flags, e.CPUTime, e.MaxRSS = n.status, n.flags, n.cpuTime, n.used.maxRSS
	}
	e.Creator, e.Looks, e.Claim = n.creatorID, n.Looks, n.claim
	e.Image, e.Container, e.Exited = n.imageAt(^uint64(0)), n.container, n.exited
	e.StatusKnown, e.Met = n.exit, n.known
}

// birth enters a process, or enters it again: a member that is made root of a nested
// session, or adopted, is born twice. The latest Birth decides the evidence, the
// earliest the creator.
func (g *Graph) birth(e *Event) {
	n := g.touch(e.ID)
	g.meet(n)
	n.reconciled = false
	g.enter(n, e.Session, e.Time)
	g.justify(n, e.Evidence, e.Source, e.Time)
	if e.Parent.names() && e.Time >= n.parentAt {
		n.parent, n.parentAt = e.Parent, e.Time
	}
	n.describe(e.Looks, e.Time)
	first := !n.birth || e.Time < n.born
	if first {
		n.birth, n.born = true, e.Time
		n.birthComm = Comm{}
		if e.Evidence == Fork {
			n.birthComm = e.Comm
		}
		g.unseen(n, e.Evidence == Adopted)
		n.cloneParent = e.Evidence == Fork && e.Creator.names() && e.Parent.names() && e.Parent != e.Creator
	}
	if first || !n.creatorID.names() {
		g.link(n, e.Creator, e.Session, e.Evidence)
	}
	if e.Claim != nil && (n.claim == nil || n.creator != nil && n.claim == n.creator.claim) {
		g.claim(n, e.Claim) // else it was Claimed, which is later
	}
	g.alive(n, e.Time)
}

func (g *Graph) exec(e *Event) {
	n := g.touch(e.ID)
	g.meet(n)
	if e.Session != 0 {
		g.enter(n, e.Session, e.Time)
	}
	e.Was, e.WasUID = n.imageAt(e.Time-1), n.UID
	if k := len(n.execs); k > 0 && n.execs[k-1].at < e.Time {
		e.Before = n.execs[k-1].at
	}
	n.describe(e.Looks, e.Time)
	g.run(n, e)
	g.alive(n, e.Time)
}

func (g *Graph) exit(e *Event) {
	n := g.touch(e.ID)
	if e.Session != 0 {
		g.enter(n, e.Session, e.Time)
	}
	if n.exit {
		return
	}
	n.exit, n.exited, n.inferred = true, e.Time, false
	g.enroll(n)
	n.status, n.flags, n.cpuTime, n.used.maxRSS, n.signal = e.Status, e.Flags, e.CPUTime, e.MaxRSS, e.Signal
	if c := n.claim; c != nil && len(c.Calls) == 1 && !e.StatusKnown { // a call that is restored knows it
		c.Calls[0].Add(Used{1, e.CPUTime, e.MaxRSS, n.Comm})
	}
	if n.state != Exited {
		g.setState(n, Zombie)
	}
}

// stop notes who stopped n, until SIGCONT. The latest report counts.
func (g *Graph) stop(e *Event) {
	n := g.touch(e.ID)
	if e.Signal == nil || n.exit || e.Signal.Time < n.signalAt {
		return
	}
	n.signal, n.signalAt = nil, e.Signal.Time
	if e.Type == Stop {
		n.signal = e.Signal
	}
	g.mark(n)
}

func (g *Graph) reap(e *Event) {
	n := g.touch(e.ID)
	n.reaped, n.inferred = true, false
	if !n.exit && (n.exited == 0 || e.Time < n.exited) {
		n.exited = e.Time
	}
	g.setState(n, Exited)
}

func (g *Graph) reparent(e *Event) {
	n := g.touch(e.ID)
	n.move(Move{Time: e.Time, From: e.From, To: e.Parent})
	if e.Time >= n.parentAt {
		n.parent, n.parentAt = e.Parent, e.Time
	}
}

// meet notes that n itself was seen, not only named by other events.
func (g *Graph) meet(n *node) {
	if n.known {
		return
	}
	n.known = true
	g.mark(n)
	g.ghosts--
	g.settle(n) // a zombie that was unknown until now counts as present
}

// alive notes a sign of life of n at the time at. It never revives a process whose end
// was reported; an end that was only inferred is undone by a later sign.
func (g *Graph) alive(n *node, at uint64) {
	switch {
	case n.state == Unknown:
		g.setState(n, Live)
	case n.inferred && at > n.exited && n.newest():
		n.inferred, n.exited = false, 0
		if n.creator == nil { // forgotten meanwhile
			g.link(n, n.creatorID, n.sessionID(), n.evidence)
		}
		g.setState(n, Live)
	}
}

// conclude notes an end of n that no event reported: the status is unknown and at is an
// upper bound. A late Exit completes it.
func (g *Graph) conclude(n *node, s State, at uint64) {
	if s <= n.state {
		return
	}
	if !n.exit && !n.reaped && !n.inferred {
		n.inferred, n.exited = true, at
	}
	g.setState(n, s)
}

func (g *Graph) setState(n *node, s State) {
	was := n.state
	if was == s {
		return
	}
	n.state = s
	g.mark(n)
	if was == Live {
		g.live--
	}
	if s == Live {
		g.live++
	}
	g.enroll(n)
	if was.over() != s.over() {
		g.enrollChildren(n)
	}
	g.settle(n)
}

// enter notes that n was in a session at a time. The latest report counts.
func (g *Graph) enter(n *node, id SessionID, at uint64) {
	if at < n.sessionAt {
		return
	}
	n.sessionAt = at
	g.join(n, g.session(id))
}

// justify notes why n is a member. The latest report counts.
func (g *Graph) justify(n *node, why Evidence, source uint8, at uint64) {
	if at < n.evidenceAt {
		return
	}
	if n.evidence != why {
		g.mark(n)
	}
	n.evidence, n.source, n.evidenceAt = why, source, at
	g.enroll(n)
}

// link makes id the creator of n, as named by the earliest Birth that has a creator,
// else by a snapshot.
func (g *Graph) link(n *node, id ID, session SessionID, evidence Evidence) {
	if !id.names() || id == n.creatorID && n.creator != nil {
		return
	}
	if id == n.id || n.id.Start < id.Start {
		return // born before its creator: not credible, and could form a cycle
	}
	c := g.get(id)
	for a := c; a != nil && a.id.Start >= n.id.Start; a = a.creator {
		if a == n { // a coarse clock: equal starts give no order
			return
		}
	}
	if !c.known && evidence == Fork && c.sessionAt == 0 {
		g.join(c, g.session(session)) // inherited from n until c itself is seen
	}
	before := n.creator
	g.detach(n)
	g.settle(before)
	n.creatorID, n.hops = id, 0
	g.mark(n)
	g.attach(n, c)
	g.inherit(n)
	if n.claim == nil {
		g.claim(n, c.claim)
	}
	if n.container == nil {
		g.contain(n, c.container)
	}
	g.enroll(n)
	g.settle(c)
}

func (g *Graph) attach(n, c *node) {
	n.creator = c
	at := c.children.tail
	for at != nil && n.id.compare(at.id) < 0 {
		at = at.links[siblings].prev
	}
	c.children.insert(n, at)
	if n.held {
		c.need++
	}
}

// detach takes n from the children of its creator. The caller settles that.
func (g *Graph) detach(n *node) {
	c := n.creator
	if c == nil {
		return
	}
	n.creator = nil
	c.children.remove(n)
	if n.held {
		c.need--
	}
}

// describe notes what n looked like at a time. The latest report counts.
func (n *node) describe(is Looks, at uint64) {
	if at >= n.at {
		n.at, n.Looks = at, is
	}
}

// claim sets the claim of n, and of all descendants that inherited its previous claim.
func (g *Graph) claim(n *node, c *Claim) {
	if was := n.claim; c != was {
		g.spread(n, func(n *node) { n.claim = c }, func(x *node) bool { return x.claim == was })
	}
}

// maxMoves bounds the moves that a process remembers.
const maxMoves = 64

// move remembers m among n's moves, by time and once. A reported move replaces an
// inferred one with the same new parent.
func (n *node) move(m Move) {
	i, _ := slices.BinarySearchFunc(n.moves, m, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), a.To.compare(b.To))
	})
	for _, j := range [...]int{i, i - 1} {
		if j < 0 || j >= len(n.moves) || n.moves[j].To != m.To {
			continue
		}
		if n.moves[j].Inferred {
			n.moves = slices.Delete(n.moves, j, j+1)
			if j < i {
				i--
			}
		} else if m.Inferred || n.moves[j].Time == m.Time {
			return
		}
	}
	n.moves = slices.Insert(n.moves, i, m)
	if len(n.moves) > maxMoves {
		n.moves = slices.Delete(n.moves, 1, 2)
	}
}
