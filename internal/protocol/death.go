package protocol

// entryOf is entered() of death.h, as the programs call it.
func (x *run) entryOf(t uint8) uint8 {
	k := x.side()
	if i := k.at(x.s.tasks[t].pid); x.off(Identity) && i != none && k.entries[i].start != 0 && k.entries[i].mark == absent {
		return i
	}
	return x.s.entered(k, t)
}

// place is place() of death.h: an earlier process with the PID makes way first, and then this step has to be taken again.
func (x *run) place(e entry) (placed, again bool) {
	k := x.side()
	i := k.at(e.pid)
	switch d := &k.entries[i]; {
	case i == none:
		return x.insert(e), false
	case d.start == 0 && x.off(PlaceWaits):
		d.linked = false
		return x.insert(e), false
	case d.start == 0: // it is being counted
	case d.start == e.start || d.start > e.start && !x.off(OlderEntry):
		return false, false
	case d.mark == absent:
		x.bury(i, true, x.c.at)
	case x.off(PlaceReaps):
		return false, false
	default:
		x.reap(i, x.c.at) // another process has its PID: it was waited for
	}
	return false, true
}

// bury begins bury() of death.h, which returns to ret.
func (x *run) bury(elem uint8, stale bool, ret label) {
	c := x.c
	c.elem, c.start, c.stale, c.after, c.at = elem, x.side().entries[elem].start, stale, ret, burySeize
}

// deathLook is on_exit() of death.h, up to die().
func (x *run) deathLook() {
	i := x.entryOf(x.c.task)
	if i == none {
		x.leave()
		return
	}
	if x.off(ExitCounted) && x.side().entries[i].flags&flagRoot != 0 {
		x.s.w.told = true
	}
	x.bury(i, false, deathEnd)
}

// burySeize is the swap of the start in seize() of arbiter.h: only one caller succeeds.
func (x *run) burySeize() {
	c := x.c
	e := &x.side().entries[c.elem]
	if !e.of(c.start) && !x.off(Seize) {
		x.buried()
		return
	}
	e.start = 0
	c.at = buryTake
	c.met = c.met || c.after == openGone
}

// buryTake is the mark in the session's word in seize().
func (x *run) buryTake() {
	c := x.c
	e := &x.side().entries[c.elem]
	c.took, c.last = e.session, e.flags
	e.taken = !x.off(MarkSession)
	c.left = c.stale
	switch {
	case c.took == 0:
		c.at = buryErase
	case c.stale || x.off(DyingFirst):
		c.at = buryLive
	default:
		c.at = buryDying
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

// buryErase is the mark of a dead member, or erase() of who is none, and what the death of a root or an owner makes due.
func (x *run) buryErase() {
	c, k := x.c, x.side()
	if e := &k.entries[c.elem]; c.stale || c.took == 0 {
		*e = entry{session: e.session, taken: e.taken} // the memory stays as it is
	} else {
		e.start, e.mark = c.start, tearing
	}
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
	if i := x.s.entered(k, x.c.task); i != none {
		x.bury(i, false, notifyTorn)
		return
	}
	x.notifyTorn()
}

// notifyTorn is torn_down() of reaped.h, after which leave() makes a zombie of the task.
func (x *run) notifyTorn() {
	k := x.side()
	if i := x.s.dead(k, x.c.task); i != none && k.entries[i].mark == tearing {
		k.entries[i].mark = torn
		x.c.took, x.c.at = k.entries[i].session, tornDown
		return
	}
	x.leave()
}

// tornDown is chain_count(TORN_DOWN).
func (x *run) tornDown() {
	x.s.count(x.side(), x.c.took, func(p *session) { p.dying-- }, false)
	x.back(x.c.ret)
}

// freeLook is on_free() of reaped.h.
func (x *run) freeLook() {
	if i := x.s.dead(x.side(), x.c.task); i != none {
		x.reap(i, idle)
		return
	}
	x.leave()
}

// reap begins reaped() of reaped.h for a dead task, or torn_down() alone for one that is a zombie, and returns to ret.
func (x *run) reap(elem uint8, ret label) {
	c, e := x.c, &x.side().entries[elem]
	c.elem, c.start, c.after = elem, e.start, ret
	switch p := &x.s.tasks[e.start]; {
	case e.mark == tearing && (p.stage >= zombie || x.off(TornDown)):
		c.took, c.at = e.session, deadTorn
		e.mark = torn
	case e.mark == torn && !p.hashed():
		c.at = deadCollect
	default:
		x.buried()
	}
}

// deadTorn is chain_count(TORN_DOWN).
func (x *run) deadTorn() {
	c := x.c
	x.s.count(x.side(), c.took, func(p *session) { p.dying-- }, false)
	if !x.s.tasks[c.start].hashed() {
		c.at = deadCollect
		return
	}
	x.buried()
}

// deadCollect is collect() of arbiter.h.
func (x *run) deadCollect() {
	c := x.c
	e := &x.side().entries[c.elem]
	if e.start != c.start || e.mark != torn {
		x.buried()
		return
	}
	c.took, c.at = e.session, deadReaped
	e.start, e.mark, e.session = 0, counting, 0
}

// deadReaped is chain_count(REAPED).
func (x *run) deadReaped() {
	x.s.count(x.side(), x.c.took, func(p *session) { p.held-- }, false)
	x.c.at = deadErase
}

// deadErase is collected() of arbiter.h, which deletes what has the PID.
func (x *run) deadErase() {
	k := x.side()
	if i := k.at(x.s.tasks[x.c.start].pid); i != none {
		k.entries[i] = entry{session: k.entries[i].session, taken: k.entries[i].taken}
	}
	x.buried()
}
