package protocol

// passTake takes what is due: claim() or take_out() of sentence.h.
func (x *run) passTake() {
	w := x.side().w
	w.due, w.later = false, false
	x.c.walk, x.c.at = 1, passVisit
	for x.m.Whole && x.c.at == passVisit {
		x.passVisit()
	}
}

// passVisit is visit() of sentence.h for one task: due_signal(), and the signal.
func (x *run) passVisit() {
	s, k := x.s, x.side()
	t, more := x.walk(x.hashed)
	if !more || x.off(Walk) {
		x.back(x.c.ret)
		return
	}
	i := s.entered(k, t)
	if i == none || k.entries[i].session == 0 || k.entries[i].flags&flagProtected != 0 {
		return
	}
	kill, stopped := false, false
	for id, p := range k.around(k.entries[i].session) {
		if x.judge(id) {
			return
		}
		if kill = p.state.kills(); kill {
			break
		}
		stopped = stopped || p.paused
		if kill = p.state == ending && stopped && !x.off(PausedDies); kill {
			break
		}
		if p.state == ending && k.entries[i].flags&flagTermed == 0 && k.entries[i].since <= p.ended {
			x.term(t, &k.entries[i])
		}
	}
	if kill && !(x.off(CoreDump) && s.tasks[t].dumping) {
		x.kill(t)
	}
	if x.m.Times[pause] > 0 {
		x.stopDue(t, &k.entries[i])
	}
}

// walk goes to the next element that is there now. False: the walk is over.
func (x *run) walk(there func(t uint8) bool) (uint8, bool) {
	for c := x.c; c.walk < x.s.w.born; c.walk++ {
		if there(c.walk) {
			c.walk++
			return c.walk - 1, true
		}
	}
	return 0, false
}

// walkAgain is walk, repeated until a walk has moved no task: then it calls over.
func (x *run) walkAgain(there func(t uint8) bool, over func()) (t uint8, more bool) {
	c := x.c
	c.met = c.met || c.moved
	c.moved = false
	if t, more = x.walk(there); !more {
		last := !c.met
		if c.walk, c.met = 1, false; last {
			over()
		}
	}
	return t, more
}

func (x *run) alive(t uint8) bool { return x.s.tasks[t].alive() }

func (x *run) hashed(t uint8) bool { return x.s.tasks[t].hashed() }

func (x *run) isDead(t uint8) bool { return x.s.dead(x.side(), t) != none }

// judge is judge() of judge.h. True: it writes a state later, without a swap.
func (x *run) judge(id uint8) bool {
	s, k := x.s, x.side()
	p := &k.sessions[id]
	if p.halts && s.w.halted && !x.off(MarkedDue) && (p.state == active || p.state == ending) {
		x.condemnNow(id)
	}
	if p.state == active && s.orphaned(k, p) {
		if x.off(SwapState) {
			x.c.session, x.c.status, x.c.at = id, ending, storeState
			return true
		}
		p.flags |= sessionOrphaned
		x.beginEnd(id, p.flags&sessionPatient != 0)
	}
	if p.state == ending && p.late {
		x.setState(id, condemned)
	}
	return false
}

// term sends SIGTERM, and SIGCONT.
func (x *run) term(t uint8, e *entry) {
	switch p := &x.s.tasks[t]; {
	case p.dumping || p.killed || !p.alive():
	case x.s.paused(x.side(), e.session):
		x.bad = "a paused session ends without being resumed"
	case p.defiant:
		p.stopped, p.pending = 0, false
		p.terms++
		e.flags |= flagTermed
	default:
		p.killed = true
	}
}

// storeState is a store in place of the swap in begin_end().
func (x *run) storeState() {
	x.setState(x.c.session, x.c.status)
	x.c.at = passVisit
}

// kill is bpf_send_signal_task(SIGKILL), or kill() at level 2.
func (x *run) kill(t uint8) {
	s := x.s
	p := &s.tasks[t]
	if p.stage >= exiting || t == 0 {
		return
	}
	if !p.killed && !s.justified(t) {
		x.bad = "no other process was signalled"
	}
	p.killed, p.dumping = true, false
}
