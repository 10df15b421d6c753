package protocol

// execAgent is on_exec() of exec.h and on_agent() of open.h, up to open_for().
func (x *run) execAgent() {
	c, s, k := x.c, x.s, x.side()
	if agent := x.m.Agents && s.tasks[c.task].agent; !agent || !k.w.agents {
		x.c.at = execCondemned
		if agent && !x.off(StoppedHalts) || !agent && x.off(OnlyAgents) {
			x.c.at = x.m.afterAgent()
		}
		x.goOn()
		return
	}
	i := x.entryOf(c.task)
	c.from = 0
	if i != none {
		e := &k.entries[i]
		c.from = e.session
		if e.flags&flagProtected != 0 {
			s.tasks[c.task].owed = false
		}
		if e.flags&flagProtected != 0 || e.session != 0 && (s.tasks[c.task].plain || s.condemned(k, e.session) ||
			x.isRoot(e) && s.home(k, e.session) == e.session) {
			c.at = x.m.afterAgent()
			x.goOn()
			return
		}
	}
	after := x.m.afterAgent()
	if x.off(FlagAfterRecord) && !s.w.halted {
		after = execCondemned
	}
	x.open(c.task, s.tasks[c.task].agentFlags(), after)
}

// afterAgent is what follows in an exec: without a halt no look at its flag.
func (m *Config) afterAgent() label {
	if m.Times[halt] == 0 {
		return execCondemned
	}
	return execHalted
}

// goOn takes the look at the states in the same step, if that is next.
func (x *run) goOn() {
	if x.c.at == execCondemned {
		x.execCondemned()
	}
}

// execHalted is the look at the flag of a halt, which ends an agent and its session: the halt's list has the record, or
// this sees the flag.
func (x *run) execHalted() {
	c, s, k := x.c, x.s, x.side()
	c.at = execCondemned
	if !s.w.halted {
		return
	}
	if i := s.entered(k, c.task); i != none {
		e := &k.entries[i]
		if e.flags&flagProtected != 0 {
			return
		}
		if e.session != 0 && k.sessions[e.session].root == c.task {
			s.truths[e.session].requested = true
			x.beginEnd(e.session, false)
			k.w.due, s.w.told = true, true
		}
	}
	x.kill(c.task)
}

// agentFlags are those of an agent's session.
func (t *task) agentFlags() uint8 {
	if t.plain {
		return sessionAgent | sessionOutlasts | sessionPatient
	}
	return sessionAgent
}

// isRoot is is_root() of session.h. The flag of the entry is set after its session.
func (x *run) isRoot(e *entry) bool {
	if x.off(RootOfRecord) {
		return e.flags&flagRoot != 0
	}
	return x.side().sessions[e.session].root == x.c.task
}

// execCondemned is the look at the states in on_exec(), and kill_current().
func (x *run) execCondemned() {
	k := x.side()
	if i := x.s.entered(k, x.c.task); i != none && k.entries[i].flags&flagProtected == 0 &&
		x.s.condemned(k, k.entries[i].session) {
		x.kill(x.c.task)
	} else if i != none && k.entries[i].flags&flagProtected == 0 && x.s.paused(k, k.entries[i].session) {
		x.stop(x.c.task, idle)
		return
	}
	x.leave()
}

// open begins create() of verbs.h, or open_for() of open.h, for a root; it returns to ret.
func (x *run) open(root, flags uint8, ret label) {
	c := x.c
	c.child, c.flags, c.ret, c.at, c.moved = root, flags, ret, openRecord, false
}

// openRecord is take_slot(), and create_in() up to the ids, which publish the record.
func (x *run) openRecord() {
	c, s, k := x.c, x.s, x.side()
	if x.isNew(c.child) {
		x.back(c.ret)
		return
	}
	if x.enterOwner() {
		return
	}
	i := x.entryOf(c.child)
	parent := uint8(0)
	if i != none && c.flags&sessionKept == 0 {
		parent = k.entries[i].session
	}
	if c.flags&sessionAgent != 0 && parent != c.from && !x.off(OpenOnce) || int(s.w.opened) >= x.m.Sessions ||
		x.m.Depth > 0 && s.depth(k, parent) >= x.m.Depth {
		if c.flags&sessionAgent != 0 && c.hook == execHook {
			s.tasks[c.child].owed = false // COUNT_AGENT_REFUSED
		}
		x.back(c.ret)
		return
	}
	s.w.opened++
	id := s.w.opened
	c.session = id
	k.sessions[id] = session{present: true, parent: parent, root: c.child, owner: c.owner,
		state: active, flags: c.flags, created: s.w.born}
	s.truths[id] = truth{root: c.child, owner: c.owner, outlasts: c.flags&sessionOutlasts != 0,
		kept: c.flags&sessionKept != 0}
	s.mayJoin(c.child, id, c.flags&(sessionAgent|sessionKept) != 0)
	switch {
	case parent != 0:
		c.to, c.at = parent, openNest
	case c.flags&sessionKept != 0:
		c.at = keepLook
	default:
		c.at = openEnter
	}
}

// enterOwner is enter_owner() of verbs.h, also if it is in no session. True: this step has to be taken again.
func (x *run) enterOwner() (again bool) {
	s, k, owner := x.s, x.side(), x.c.owner
	if owner == 0 {
		return false
	}
	if i := s.entered(k, owner); i != none {
		k.entries[i].flags |= flagOwner
		return false
	}
	_, again = x.place(entry{pid: s.tasks[owner].pid, start: owner, since: s.w.born, flags: flagOwner})
	return again
}

// isNew is is_new() of verbs.h.
func (x *run) isNew(t uint8) bool { return x.s.tasks[t].stage == listed && !x.off(BirthFirst) }

// openNest is the count in nest() of open.h.
func (x *run) openNest() {
	x.side().sessions[x.c.to].nested++
	x.c.at = openNested
}

// openNested is the look at the state after it: one of nest() and release() sees the other.
func (x *run) openNested() {
	c, k := x.c, x.side()
	if p := &k.sessions[c.to]; !p.present || p.state == free && !x.s.carrying() {
		p.nested--
		k.sessions[c.session] = session{}
		x.back(c.ret)
		return
	}
	c.at = openEnter
}

// openEnter is entered() in enter_root() of open.h, and the swap in reassign().
func (x *run) openEnter() {
	c, k := x.c, x.side()
	i := x.entryOf(c.child)
	parent := k.sessions[c.session].parent
	switch {
	case i == none:
		c.at = openJoin
	case k.entries[i].flags&flagProtected != 0 || k.entries[i].session != parent:
		x.openFailed()
	default:
		k.entries[i].session = c.session
		c.elem, c.at = i, openCompare
	}
}

// openCompare is the look at the start in reassign(), and set_flags().
func (x *run) openCompare() {
	c, k := x.c, x.side()
	e := &k.entries[c.elem]
	parent := k.sessions[c.session].parent
	gives := e.start != c.child && e.start != 0 || x.off(GiveBack) && !e.of(c.child)
	if gives && e.session == c.session && !e.taken {
		e.session = parent
		x.openFailed()
		return
	}
	if e.of(c.child) {
		e.flags |= flagRoot
	} else {
		k.w.due, x.s.w.told = true, true
	}
	c.at = openCount
}

// openCount is session_count(JOINED): the sessions around it have counted the root already.
func (x *run) openCount() {
	c, k := x.c, x.side()
	x.s.count(k, c.session, (*session).join, k.sessions[c.session].parent != 0)
	x.opened()
}

// openJoin is chain_count_cold(JOINED): the root's death may come right after the insert.
func (x *run) openJoin() {
	x.s.count(x.side(), x.c.session, (*session).join, false)
	x.c.at = openInsert
}

// openInsert is the insert in enter().
func (x *run) openInsert() {
	c, s, k := x.c, x.s, x.side()
	e := entry{pid: s.tasks[c.child].pid, start: c.child, session: c.session, since: s.w.born, flags: flagRoot}
	switch placed, again := x.place(e); {
	case again:
	case placed:
		c.elem, c.at = k.at(e.pid), openAlive
	default:
		c.at = openLeave
	}
}

// openAlive is the look at signal->live in enter(): the exit hook or this sees the other.
func (x *run) openAlive() {
	c, s, k := x.c, x.s, x.side()
	if i := s.entered(k, c.child); !s.tasks[c.child].alive() && i != none && !x.off(LiveAfterInsert) {
		x.bury(i, true, openGone)
		return
	}
	x.opened()
}

// openGone is the end of enter_root() for a root that has exited: the session stands if another one counted that, or the
// root forked meanwhile.
func (x *run) openGone() {
	alone := x.c.met && x.side().sessions[x.c.session].forks == 0
	if x.c.met = false; x.off(RootStands) || alone {
		x.openFailed()
		return
	}
	x.side().w.due, x.s.w.told = true, true
	x.opened()
}

// openLeave is chain_count_cold(LEFT) for a root that could not be entered.
func (x *run) openLeave() {
	x.s.count(x.side(), x.c.session, (*session).leave, false)
	x.openFailed()
}

func (x *run) openFailed() {
	c, k := x.c, x.side()
	if parent := k.sessions[c.session].parent; parent != 0 {
		k.sessions[parent].nested--
	}
	k.sessions[c.session] = session{}
	x.s.truths[c.session] = truth{}
	x.back(c.ret)
}

func (x *run) opened() {
	c, s := x.c, x.s
	if s.tasks[c.child].alive() && !s.truths[c.session].dissolved && c.side == s.w.ours {
		s.must[c.child] |= 1 << c.session
	}
	s.truths[c.session].open = true
	c.moved = true
	x.back(c.ret)
}

// keepLook is hand_over() of open.h, up to move().
func (x *run) keepLook() {
	c, k := x.c, x.side()
	i := x.entryOf(c.child)
	from := c.from
	if i == none || !k.sessions[from].present || k.sessions[from].root == c.child {
		x.openFailed()
		return
	}
	x.move(i, c.child, from, c.session, keepMoved)
}

// keepMoved is set_flags() after it.
func (x *run) keepMoved() {
	c, s, k := x.c, x.s, x.side()
	if c.ret = idle; !c.moved {
		x.openFailed()
		return
	}
	if i := s.entered(k, c.child); i != none {
		k.entries[i].flags |= flagRoot
	}
	s.must[c.child] = 1 << c.session
	s.truths[c.session].open = true
	c.at, c.walk, c.moved = followVisit, 1, false
}
