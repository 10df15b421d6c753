package protocol

// verb begins a request, or a take-over. False: it would change nothing.
func (x *run) verb(a action, arg uint8) bool {
	s := x.s
	k := &s.sides[s.w.ours]
	x.start(daemon, idle, s.w.ours, 0)
	c := x.c
	switch a {
	case create:
		x.open(arg, 0, idle)
	case keep:
		i := s.entered(k, arg)
		if i == none || k.entries[i].session == 0 {
			return false
		}
		c.from = k.entries[i].session
		x.open(arg, sessionKept|sessionOutlasts, idle)
	case protect:
		c.child, c.at = arg, protectLook
	case adopt:
		c.session, c.walk, c.at = arg, 1, adoptVisit
	case follow:
		c.child, c.session, c.from, c.walk, c.at = k.sessions[arg].root, arg, k.sessions[arg].parent, 1, followVisit
		s.mayJoin(c.child, arg, true)
	case end, endPatient:
		s.truths[arg].requested = true
		if k.sessions[arg].state == ending && a == end {
			k.sessions[arg].late = true
			x.setState(arg, condemned)
		}
		x.beginEnd(arg, a == endPatient)
		c.at = passTake
	case dissolve:
		if k.sessions[arg].state != active || k.sessions[arg].paused {
			return false
		}
		x.setState(arg, dissolved)
		if x.off(Dissolved) {
			k.sessions[arg].state = empty
		}
		s.truths[arg].dissolved = true
		for t := range s.must {
			s.must[t] &^= 1 << arg
		}
		c.from, c.to, c.walk, c.at = arg, s.home(k, k.sessions[arg].parent), 1, dissolveVisit
	case pause, resume:
		return x.pauseVerb(arg, a == pause)
	case settle:
		c.session, c.walk, c.at = arg, 1, settleVisit
	case release:
		c.session, c.at = arg, releaseState
	case reconcile:
		c.walk, c.at = 1, reconcileVisit
	case takeOver:
		c.at = takeOverExecs
	case halt:
		c.walk, c.at = 1, haltMark
	}
	return true
}

// nextRecord is the next session, from the walk on, whose record is there; 0: none is left.
func (x *run) nextRecord() (id uint8) {
	for c := x.c; c.walk <= x.s.w.opened; c.walk++ {
		if x.side().sessions[c.walk].present {
			return c.walk
		}
	}
	return 0
}

// haltMark marks one of the sessions: without effect until the flag is set.
func (x *run) haltMark() {
	if id := x.nextRecord(); id != 0 {
		x.side().sessions[id].halts = true
		x.c.walk++
		return
	}
	if x.c.at, x.c.walk = haltFlag, 1; x.off(FlagFirst) {
		x.c.at = haltList
	}
}

// haltFlag puts a halt in force: agents die at their exec from now on, and marked sessions are due.
func (x *run) haltFlag() {
	s, k := x.s, x.side()
	s.w.halted = true
	k.w.due = true
	for id := uint8(1); id <= s.w.opened; id++ {
		if p := &k.sessions[id]; p.present && p.halts {
			s.truths[id].requested = true
		}
	}
	if x.c.at = haltList; x.off(FlagFirst) {
		x.c.at = passTake
	}
}

// haltList ends one of the sessions that are listed after the flag was set.
func (x *run) haltList() {
	if id := x.nextRecord(); id != 0 {
		if !x.side().sessions[id].halts {
			x.s.truths[id].requested = true
			x.condemnNow(id)
		}
		x.c.walk++
		return
	}
	if x.c.at = passTake; x.off(FlagFirst) {
		x.c.at = haltFlag
	}
}

// condemnNow ends a session without a grace.
func (x *run) condemnNow(id uint8) {
	if p := &x.side().sessions[id]; p.state == ending {
		p.late = true
		x.setState(id, condemned)
	}
	x.beginEnd(id, false)
}

// protectLook is protect() of verbs.h.
func (x *run) protectLook() {
	c, s, k := x.c, x.s, x.side()
	if x.isNew(c.child) {
		x.rest()
		return
	}
	i := x.entryOf(c.child)
	if i == none {
		e := entry{pid: s.tasks[c.child].pid, start: c.child, since: s.w.born, flags: flagProtected}
		if _, again := x.place(e); !again {
			c.at = protectAlive
		}
		return
	} else if i != none && (k.entries[i].session == 0 || x.off(ProtectMember)) {
		k.entries[i].flags |= flagProtected
	}
	x.rest()
}

// protectAlive is the look at signal->live in enter() of open.h.
func (x *run) protectAlive() {
	if i := x.s.entered(x.side(), x.c.child); i != none && !x.s.tasks[x.c.child].alive() {
		x.bury(i, true, protectGone)
		return
	}
	x.rest()
}

// protectGone is the end of enter(): a pass took the process for a root that lives.
func (x *run) protectGone() {
	x.side().w.due = true
	x.rest()
}

// followVisit is follow_member() of verbs.h for one task.
func (x *run) followVisit() {
	c, s, k := x.c, x.s, x.side()
	t, more := x.walkAgain(x.hashed, func() {
		if s.truths[c.session].kept {
			s.followed(k, c.child, c.from, c.session)
		}
		x.rest()
	})
	if !more {
		return
	}
	i := s.entered(k, t)
	if i == none || k.entries[i].session != c.from {
		return
	}
	by := s.entered(k, k.entries[i].creator)
	if by != none && k.entries[i].creator > 0 && k.entries[by].session == c.session &&
		!s.condemned(k, c.session) {
		x.move(i, t, c.from, c.session, followVisit)
	}
}

// adoptVisit is adopt_child() of verbs.h for one task, and adopt() of adopt.h.
func (x *run) adoptVisit() {
	c, s, k := x.c, x.s, x.side()
	t, more := x.walkAgain(x.alive, x.rest)
	if !more {
		return
	}
	i := x.entryOf(t)
	up := s.entered(k, s.parent(t))
	if up == none || k.entries[up].session != c.session || s.condemned(k, c.session) {
		return
	}
	e := entry{pid: s.tasks[t].pid, start: t, session: c.session, creator: s.parent(t), since: s.w.born}
	switch {
	case i == none:
		placed, again := x.place(e)
		if again {
			c.walk = t
			return
		}
		if c.moved = placed; placed {
			s.mayJoin(t, c.session, false)
			s.count(k, c.session, (*session).join, false)
		}
	case k.entries[i].session == 0 && k.entries[i].flags&flagProtected == 0:
		s.mayJoin(t, c.session, false)
		k.entries[i].creator, k.entries[i].since = e.creator, e.since
		x.move(i, t, 0, c.session, adoptVisit)
	}
}

// dissolveVisit is let_member_go() of verbs.h for one task.
func (x *run) dissolveVisit() {
	c, s, k := x.c, x.s, x.side()
	t, more := x.walkAgain(x.hashed, x.rest)
	if !more {
		return
	}
	if i := s.entered(k, t); i != none && k.entries[i].session == c.from {
		if c.to == 0 || k.sessions[c.to].root != t {
			k.entries[i].flags &^= flagRoot
		}
		x.move(i, t, c.from, c.to, dissolveVisit)
	}
}

// settleVisit is settle_dead() of reaped.h for one dead task.
func (x *run) settleVisit() {
	c, k := x.c, x.side()
	t, more := x.walk(x.isDead)
	if !more {
		c.child, c.forks, c.walk, c.at = 0, k.sessions[c.session].forks, 1, settleMeet
		return
	}
	x.reap(x.s.dead(k, t), settleVisit)
}

// settleMeet is is_member() of verbs.h for one task: meet_all().
func (x *run) settleMeet() {
	c, s, k := x.c, x.s, x.side()
	t, more := x.walk(x.hashed)
	if !more {
		c.at = settleClose
		return
	}
	if i := k.at(s.tasks[t].pid); i != none {
		e := &k.entries[i]
		c.amid = c.amid || e.start == 0
		c.met = c.met || e.of(t) && e.session != 0 && s.within(k, e.session, c.session)
	}
}

// settleClose is close_if_empty() of verbs.h up to begin_end().
func (x *run) settleClose() {
	c, k := x.c, x.side()
	p := &k.sessions[c.session]
	if !p.present || c.met || p.forks != c.forks || p.live != 0 && c.amid && !x.off(Counting) {
		x.rest()
		return
	}
	if p.live != 0 {
		p.held, p.live = p.held-p.live, 0
		p.flags |= sessionDrifted
	}
	c.at = settleDying
}

// settleDying is the rest: the cause, `dying`, and the swap of the state.
func (x *run) settleDying() {
	c, s, k := x.c, x.s, x.side()
	p := &k.sessions[c.session]
	x.beginEnd(c.session, false)
	if p.present && p.dying <= 0 && p.state < empty {
		x.setState(c.session, empty)
		s.truths[c.session].clean = p.flags&sessionDrifted == 0 && p.unentered == 0
	}
	x.rest()
}

// releaseState is the swap in release() of verbs.h: the state is taken away first.
func (x *run) releaseState() {
	c, p := x.c, &x.side().sessions[x.c.session]
	if !p.present || p.state < empty {
		x.rest()
		return
	}
	c.status, c.at = p.state, releaseNested
	p.state = free
}

// releaseNested is the look at the counts in release().
func (x *run) releaseNested() {
	c, k := x.c, x.side()
	p := &k.sessions[c.session]
	if p.nested > 0 && !x.off(Nested) || p.live > 0 || p.dying > 0 {
		p.state = c.status
		x.rest()
		return
	}
	c.walk, c.at = 1, releaseHand
}

// releaseHand is hand_dead() of verbs.h for one dead task.
func (x *run) releaseHand() {
	c, k := x.c, x.side()
	p := &k.sessions[c.session]
	if t, more := x.walk(x.isDead); more {
		if e := &k.entries[x.s.dead(k, t)]; p.parent > 0 && e.session == c.session && !x.off(HandDead) {
			e.session = p.parent
			p.held--
		}
		return
	}
	if p.parent > 0 && p.held > 0 && !x.off(HandDead) {
		p.state = c.status
		x.rest()
		return
	}
	if p.parent > 0 {
		k.sessions[p.parent].nested--
	}
	*p = session{}
	x.rest()
}

// reconcileVisit is reconcile_birth() of verbs.h for one task.
func (x *run) reconcileVisit() {
	c, s, k := x.c, x.s, x.side()
	t, more := x.walk(x.alive)
	if !more {
		x.rest()
		return
	}
	i := x.entryOf(t)
	up := s.entered(k, s.parent(t))
	if i != none || up == none || k.entries[up].session == 0 || t < k.entries[up].since && !x.off(Narrow) {
		return
	}
	if c.session, c.child = x.sessionAt(k.entries[up].session, t), t; c.session == 0 {
		return
	}
	placed, again := x.place(entry{pid: s.tasks[t].pid, start: t, session: c.session,
		creator: k.entries[up].start, since: t + 1})
	if again {
		c.walk = t
	} else if placed {
		c.at = reconcileCount
	}
}

// reconcileCount is chain_count_cold(BORN): the task may have exited.
func (x *run) reconcileCount() {
	c, s, k := x.c, x.s, x.side()
	s.count(k, c.session, (*session).bear, false)
	c.at = reconcileVisit
	if i := s.entered(k, c.child); i != none && !s.tasks[c.child].alive() {
		x.bury(i, true, reconcileVisit)
	} else if s.condemned(k, c.session) {
		k.w.due, s.w.told = true, true
	}
}

// parent is the process that the kernel calls the parent now.
func (s *State) parent(t uint8) uint8 {
	if by := s.tasks[t].creator; s.tasks[by].alive() {
		return by
	}
	return 0
}
