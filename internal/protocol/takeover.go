package protocol

import "cmp"

// carrying: side 1 has the sessions of side 0, but not their states yet.
func (s *State) carrying() bool {
	return s.sides[0].w.attached && s.sides[1].w.attached && s.w.ours == 0
}

// takeOverExecs is execs() of tracer/agents.go: the last execs before the hooks of side 1 run.
func (x *run) takeOverExecs() {
	c, s := x.c, x.s
	for t := range s.tasks {
		s.tasks[t].early = s.tasks[t].became || x.off(LastExec) && s.tasks[t].agent
	}
	c.side, c.at = 1, takeOverSessions
}

// takeOverSessions is carrySessions() of tracer/carry.go: sessions without members or a state.
func (x *run) takeOverSessions() {
	x.putSessions()
	x.c.at = takeOverAttach
}

func (x *run) putSessions() {
	s := x.s
	for id := range s.sides[0].sessions {
		if p := s.sides[0].sessions[id]; p.present && !s.sides[1].sessions[id].present {
			p.live, p.dying, p.held, p.nested, p.state = 0, 0, 0, 0, free
			s.sides[1].sessions[id] = p
		}
	}
}

// takeOverAttach is attach() of tracer/load.go.
func (x *run) takeOverAttach() {
	x.side().w.attached = true
	x.c.at = takeOverShow
}

// takeOverShow puts the old processes into the map `elder`, and waits for hooks.
func (x *run) takeOverShow() {
	x.s.w.shown = true
	x.c.at, x.c.walk, x.c.ret = takeOverWait, 1, carryVisit
}

// takeOverWait is the update of a map of maps, which waits for programs: here hooks that may open a session.
func (x *run) takeOverWait() {
	s := x.s
	for t := uint8(1); t < s.w.born; t++ {
		if c := &s.cpus[t]; c.hook == execHook && c.side == 0 && !x.off(WaitForHooks) {
			return
		}
	}
	x.c.at = x.c.ret
	if x.c.ret == takeOverAgain {
		x.takeOverAgain()
	}
}

// carryVisit is carry_task() of verbs.h for one task. Walks are repeated until one finds none.
func (x *run) carryVisit() {
	c, s, k := x.c, x.s, x.side()
	t, more := x.walkAgain(x.alive, func() {
		if c.at = takeOverStop; c.passed {
			c.at = takeOverStates
		}
	})
	if !more {
		return
	}
	i := x.entryOf(t)
	if i == none {
		x.carry(t, carryAlive)
		return
	}
	old := s.entered(&s.sides[0], t)
	if old == none || x.off(CarryAgain) {
		return
	}
	from, to := k.entries[i].session, s.sides[0].entries[old].session
	if to != from && k.sessions[to].present {
		k.entries[i].flags |= s.sides[0].entries[old].flags & flagRoot
		x.move(i, t, from, to, carryVisit)
	}
}

// carry begins carry() of elder.h, which returns to ret. False: the old side has no such member.
func (x *run) carry(t uint8, ret label) bool {
	c, s := x.c, x.s
	i := s.entered(&s.sides[0], t)
	if i == none {
		return false
	}
	e := s.sides[0].entries[i]
	if e.session == 0 && e.flags&flagOwner == 0 || e.session != 0 && !x.side().sessions[e.session].present {
		return false
	}
	c.to, c.session, c.flags, c.from, c.ret, c.at = t, e.session, e.flags, i, ret, carryCount
	return true
}

// carryCount is chain_count_cold(JOINED) in carry().
func (x *run) carryCount() {
	x.s.count(x.side(), x.c.session, (*session).join, false)
	x.c.at = carryInsert
}

// carryInsert is the insert in carry().
func (x *run) carryInsert() {
	c, s := x.c, x.s
	t := c.to
	e := s.sides[0].entries[c.from]
	switch placed, again := x.place(entry{pid: s.tasks[t].pid, start: t, session: c.session, creator: e.creator,
		since: cmp.Or(e.since, s.w.born), flags: c.flags}); {
	case again:
	case placed:
		c.at = c.ret
	default:
		c.at = carryUndo
	}
}

// carryUndo is chain_count_cold(LEFT) in carry().
func (x *run) carryUndo() {
	x.s.count(x.side(), x.c.session, (*session).leave, false)
	x.c.at = x.c.ret
}

// carryAlive is the end of carry_task(): of a death before the insert our exit hook knows nothing.
func (x *run) carryAlive() {
	c, s := x.c, x.s
	t := c.walk - 1
	c.moved, c.at = true, carryVisit
	if i := s.entered(x.side(), t); i != none && !s.tasks[t].alive() && !x.off(LiveAfterInsert) {
		x.bury(i, true, carryVisit)
	}
}

// takeOverStop is StopAgents() of tracer/takeover.
func (x *run) takeOverStop() {
	c, s := x.c, x.s
	if !x.off(StopAgents) {
		s.sides[0].w.agents = false
	}
	c.at, c.ret = takeOverWait, takeOverAgain
}

// takeOverAgain reads the sessions again, and the walks begin anew.
func (x *run) takeOverAgain() {
	if !x.off(ReadAgain) {
		x.putSessions()
	}
	x.c.at, x.c.ret, x.c.walk, x.c.passed = carryVisit, idle, 1, true
}

// takeOverStates is carryStates() of tracer/carry.go.
func (x *run) takeOverStates() {
	s := x.s
	for id := range s.sides[0].sessions {
		old, p := &s.sides[0].sessions[id], &s.sides[1].sessions[id]
		if old.present && p.present {
			p.state, p.late, p.flags, p.unentered, p.nested = old.state, old.late, old.flags, old.unentered, 0
		}
	}
	for id := range s.sides[0].sessions {
		if p := &s.sides[0].sessions[id]; p.present {
			s.sides[1].sessions[p.parent].nested++
		}
	}
	s.sides[1].sessions[0] = session{}
	x.c.at = takeOverAgents
}

// takeOverAgents is carryAgents() of tracer/carry.go.
func (x *run) takeOverAgents() {
	x.side().w.agents = x.m.Agents
	x.c.at, x.c.walk = lateVisit, 1
	if !x.m.Agents || x.off(LateAgents) {
		x.c.at = deadVisit
	}
}

// lateVisit is openOne() of tracer/agents.go for one task.
func (x *run) lateVisit() {
	c, s, k := x.c, x.s, x.side()
	c.moved = false
	t, more := x.walk(x.hashed)
	if !more {
		c.walk, c.at = 1, deadVisit
		return
	}
	p := &s.tasks[t]
	if !p.agent || p.early || !p.alive() {
		return
	}
	if !p.became && !x.off(CreatorsName|LastExec) { // a child has its creator's name until it execs
		return
	}
	c.from = 0
	if i := s.entered(k, t); i != none {
		c.from = k.entries[i].session
	}
	if c.from != 0 {
		in := &k.sessions[c.from]
		if !in.present || in.root == t || p.plain {
			return
		}
		if root := &s.tasks[in.root]; in.flags&sessionAgent != 0 && (!root.alive() || root.agent) && x.off(LastExec) {
			return
		}
	}
	x.open(t, p.agentFlags(), lateVisit)
}

// deadVisit is carry_dead() of verbs.h for one dead task.
func (x *run) deadVisit() {
	c, s := x.c, x.s
	t, more := x.walk(func(t uint8) bool { return s.dead(&s.sides[0], t) != none })
	if !more {
		c.at = takeOverHide
		return
	}
	old := s.sides[0].entries[s.dead(&s.sides[0], t)]
	if x.insert(entry{pid: old.pid, start: t, mark: tearing, session: old.session, taken: true}) {
		c.child, c.took, c.status = t, old.session, status(old.mark)
		c.at = deadFound
	}
}

// deadFound is chain_count_cold(FOUND_DEAD), and torn_down().
func (x *run) deadFound() {
	c, k := x.c, x.side()
	x.s.count(k, c.took, (*session).mourn, false)
	c.at = deadVisit
	if i := x.s.dead(k, c.child); i != none && mark(c.status) != tearing && k.entries[i].mark == tearing {
		k.entries[i].mark = torn
		c.at, c.ret = tornDown, deadVisit
	}
}

// takeOverHide lets go of the old processes.
func (x *run) takeOverHide() {
	x.s.w.shown = false
	x.c.at, x.c.ret = passTake, takeOverPublish
}

// takeOverPublish is pin() of tracer/pins.go, and the end of the old side.
func (x *run) takeOverPublish() {
	s := x.s
	s.w.ours = 1
	clear(s.sides[0].mem)
	for id := range s.truths {
		if p := &s.truths[id]; p.open && !p.dissolved && s.tasks[p.root].alive() && s.sides[1].sessions[id].present {
			s.must[p.root] |= 1 << id
		}
	}
	x.rest()
}
