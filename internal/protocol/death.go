package protocol

// entryOf is entry_of() of death.h: the entry of the task. False: it begins to forget() one that is
// stale, and this step has to be taken again.
func (x *run) entryOf(t uint8) (elem uint8, found bool) {
	k := x.side()
	i := k.at(x.s.tasks[t].pid)
	if i == none || k.entries[i].start == t || x.off(Identity) {
		return i, true
	}
	if k.entries[i].start == 0 || k.entries[i].start > t && !x.off(OlderEntry) {
		return none, true // its death is being counted, or it is the one that has this PID now
	}
	x.bury(i, true, x.c.at)
	return none, false
}

// bury begins bury() of death.h, which returns to ret.
func (x *run) bury(elem uint8, stale bool, ret label) {
	c := x.c
	c.elem, c.start, c.stale, c.after, c.at = elem, x.side().entries[elem].start, stale, ret, burySeize
}

// deathLook is on_exit() of death.h, up to die().
func (x *run) deathLook() {
	k := x.side()
	i := k.at(x.s.tasks[x.c.task].pid)
	switch {
	case i == none || k.entries[i].start == 0:
		x.leave()
	case k.entries[i].start == x.c.task || x.off(Identity):
		if x.off(ExitCounted) && k.entries[i].flags&flagRoot != 0 {
			x.s.w.told = true
		}
		x.bury(i, false, deathEnd)
	default:
		x.bury(i, true, deathEnd)
	}
}

// deathEnd is the end of on_exit().
func (x *run) deathEnd() { x.leave() }

// burySeize is the swap of the start in seize() of arbiter.h: only one caller succeeds.
func (x *run) burySeize() {
	c := x.c
	e := &x.side().entries[c.elem]
	if e.start != c.start && !x.off(Seize) || e.start == 0 && !x.off(Seize) {
		x.buried()
		return
	}
	e.start = 0
	c.at = buryTake
	c.met = c.met || c.after == openGone
}

// buryTake is take_out() in seize(), and insert_dead() in remember().
func (x *run) buryTake() {
	c, k := x.c, x.side()
	e := &k.entries[c.elem]
	c.took, c.last = e.session, e.flags
	if !x.off(Seize) {
		e.session = 0
	}
	c.at = buryErase
	if c.took == 0 {
		return
	}
	if c.stale || k.dead[c.start].mark != absent { // or carry_dead() was first, and has counted it
		c.left, c.at = true, buryLive
		return
	}
	k.dead[c.start] = corpse{mark: tearing, session: c.took}
	c.at = buryDying
	if x.off(DyingFirst) {
		c.at = buryLive
	}
}

// buryDying is the first half of session_count(DIED): dying is raised before live falls.
func (x *run) buryDying() {
	x.s.count(x.side(), x.c.took, func(p *session) {
		if p.dying++; x.off(HeldOnce) {
			p.held++
		}
	}, x.off(CountChain))
	x.c.at = buryLive
	if x.off(DyingFirst) {
		x.c.at = buryErase
	}
}

// buryLive is the second half, or session_count(LEFT).
func (x *run) buryLive() {
	x.s.count(x.side(), x.c.took, func(p *session) {
		if p.live--; x.c.left || x.off(HeldOnce) {
			p.held--
		}
	}, x.off(CountChain))
	x.c.at = buryErase
	if x.off(DyingFirst) && !x.c.stale {
		x.c.at = buryDying
	}
}

// buryErase is erase(), and what the death of a root or an owner makes due.
func (x *run) buryErase() {
	c, k := x.c, x.side()
	k.entries[c.elem] = entry{session: k.entries[c.elem].session} // the memory stays as it is
	if c.last&(flagRoot|flagOwner) != 0 {
		if c.last&flagOwner != 0 || k.rootCounts(c.took, c.start, x.off(MidPass)) && !x.off(RootCounts) {
			k.w.due = true
		}
		if !x.off(ExitCounted) && !c.stale {
			x.s.w.told = true
		}
	}
	x.buried()
}

// rootCounts is root_counts() of death.h: a session of that root has not begun to end, or for its death.
func (k *side) rootCounts(id, root uint8, off bool) bool {
	found := false
	for _, p := range k.around(id) {
		if p.root == root {
			if p.state == active || p.flags&sessionOrphaned != 0 && !off {
				return true
			}
			found = true
		}
	}
	return !found
}

func (x *run) buried() {
	c := x.c
	after := c.after
	c.start, c.took, c.elem, c.stale, c.left, c.after, c.last = 0, 0, none, false, false, idle, 0
	x.back(after)
}

// notifyLook is on_notify() of reparent.h, up to die(): the second writer of a death.
func (x *run) notifyLook() {
	k := x.side()
	if i := k.at(x.s.tasks[x.c.task].pid); i != none && k.entries[i].start == x.c.task {
		x.bury(i, false, notifyTorn)
		return
	}
	x.notifyTorn()
}

// notifyTorn is torn_down() of reaped.h, after which leave() makes a zombie of the task.
func (x *run) notifyTorn() {
	if k := x.side(); k.dead[x.c.task].mark == tearing {
		k.dead[x.c.task].mark = torn
		x.c.took, x.c.at = k.dead[x.c.task].session, notifyCount
		return
	}
	x.leave()
}

// notifyCount is chain_count(TORN_DOWN).
func (x *run) notifyCount() {
	x.s.count(x.side(), x.c.took, func(p *session) { p.dying-- }, false)
	x.leave()
}

// freeLook is on_free() of reaped.h.
func (x *run) freeLook() {
	if x.side().dead[x.c.task].mark == absent {
		x.leave()
		return
	}
	x.settleDead(x.c.task, idle)
}

// settleDead begins settle_dead() or reaped() of reaped.h for one dead task, and returns to ret.
func (x *run) settleDead(t uint8, ret label) {
	c, k, p := x.c, x.side(), &x.s.tasks[t]
	c.child, c.ret = t, ret
	d := &k.dead[t]
	switch torndown := p.stage >= zombie || x.off(TornDown); {
	case d.mark == tearing && torndown:
		c.took, c.at = d.session, deadTorn
		d.mark = torn
	case d.mark == torn && !p.hashed():
		c.at = deadCollect
	default:
		x.back(ret)
	}
}

// deadTorn is chain_count(TORN_DOWN).
func (x *run) deadTorn() {
	c := x.c
	x.s.count(x.side(), c.took, func(p *session) { p.dying-- }, false)
	if !x.s.tasks[c.child].hashed() {
		c.at = deadCollect
		return
	}
	x.back(c.ret)
}

// deadCollect is collect() of arbiter.h.
func (x *run) deadCollect() {
	c := x.c
	d := &x.side().dead[c.child]
	if d.mark != torn {
		x.back(c.ret)
		return
	}
	c.took, c.at = d.session, deadReaped
	*d = corpse{mark: counting}
}

// deadReaped is chain_count(REAPED), and collected() of arbiter.h.
func (x *run) deadReaped() {
	x.s.count(x.side(), x.c.took, func(p *session) { p.held-- }, false)
	x.side().dead[x.c.child] = corpse{}
	x.back(x.c.ret)
}
