package protocol

import "iter"

// at is entry_at() of classes.h: the element that has this PID.
func (k *side) at(pid uint8) uint8 {
	for i := range k.entries {
		if k.entries[i].linked && k.entries[i].pid == pid {
			return uint8(i)
		}
	}
	return none
}

// insert is insert() of classes.h with BPF_NOEXIST: false if the map is full, or the PID has an entry.
func (x *run) insert(e entry) bool {
	k := x.side()
	if k.at(e.pid) != none {
		return false
	}
	for i := 1; i < len(k.entries); i++ {
		if !k.entries[i].linked {
			e.linked = true
			k.entries[i] = e
			return true
		}
	}
	return false
}

// of: the word of the start is that of the task, which is alive.
func (e *entry) of(t uint8) bool { return e.start == t && e.mark == absent }

// entered is entered() of death.h: the element of the task, or none.
func (s *State) entered(k *side, t uint8) uint8 {
	if i := k.at(s.tasks[t].pid); i != none && k.entries[i].of(t) {
		return i
	}
	return none
}

// dead is dead_at() of reaped.h: the element of a dead task that was not counted as reaped, or none.
func (s *State) dead(k *side, t uint8) uint8 {
	if i := k.at(s.tasks[t].pid); i != none && k.entries[i].start == t && k.entries[i].mark != absent {
		return i
	}
	return none
}

// has is alive() of death.h.
func (s *State) has(k *side, t uint8) bool { return s.entered(k, t) != none }

// around are the session and those that it is nested in, as long as their records are there.
func (k *side) around(id uint8) iter.Seq2[uint8, *session] {
	return func(yield func(uint8, *session) bool) {
		for range k.sessions {
			p := &k.sessions[id]
			if id == 0 || !p.present || !yield(id, p) {
				return
			}
			id = p.parent
		}
	}
}

// some reports whether it holds of one of them.
func (k *side) some(id uint8, holds func(*session) bool) bool {
	for _, p := range k.around(id) {
		if holds(p) {
			return true
		}
	}
	return false
}

// The changes of session.h: BORN, JOINED, LEFT and FOUND_DEAD.
func (p *session) bear()  { p.forks++; p.join() }
func (p *session) join()  { p.held++; p.live++ }
func (p *session) leave() { p.held--; p.live-- }
func (p *session) mourn() { p.held++; p.dying++ }

// count is chain_count() of session.h.
func (s *State) count(k *side, id uint8, by func(*session), innermost bool) {
	for _, p := range k.around(id) {
		if by(p); innermost {
			return
		}
	}
}

// countApart is count_apart() of session.h.
func (x *run) countApart(id, other uint8, by func(*session)) {
	k := x.side()
	for id, p := range k.around(id) {
		if x.s.within(k, other, id) && !x.off(CountApart) {
			return
		}
		by(p)
	}
}

// within is chain_has() of session.h.
func (s *State) within(k *side, id, wanted uint8) bool {
	for at, p := range k.around(id) {
		if id = p.parent; at == wanted {
			return true
		}
	}
	return id == wanted && id != 0
}

// condemned is chain_demands() of session.h.
func (s *State) condemned(k *side, id uint8) bool {
	return k.some(id, func(p *session) bool { return p.state.kills() })
}

// paused is the same: the session, or one around it, is.
func (s *State) paused(k *side, id uint8) bool {
	return k.some(id, func(p *session) bool { return p.paused })
}

// depth is depth_of() of session.h.
func (s *State) depth(k *side, id uint8) (n int) {
	for range k.around(id) {
		n++
	}
	return n
}

// home is home_of() of session.h.
func (s *State) home(k *side, id uint8) uint8 {
	for id, p := range k.around(id) {
		if p.state != dissolved {
			return id
		}
	}
	return 0
}

// sessionAt is session_at() of session.h.
func (x *run) sessionAt(id, t uint8) uint8 {
	for id, p := range x.side().around(id) {
		if p.created <= t || p.flags&sessionKept != 0 || x.off(BornInside) {
			return id
		}
	}
	return 0
}

// orphaned: the session ends, as its root or its owner has died.
func (s *State) orphaned(k *side, p *session) bool {
	return p.flags&sessionOutlasts == 0 && !s.has(k, p.root) || p.owner > 0 && !s.has(k, p.owner)
}

// remembered: a side has the dead task.
func (s *State) remembered(t uint8) bool {
	return s.dead(&s.sides[0], t) != none || s.dead(&s.sides[1], t) != none
}

// beginEnd is begin_end() of session.h. An end that is not asked for follows from a death.
func (x *run) beginEnd(id uint8, grace bool) {
	p := &x.side().sessions[id]
	if grace && x.s.paused(x.side(), id) && !x.off(PausedDies) {
		grace = false
	}
	to := condemned
	if grace {
		to = ending
	}
	if p.state != active {
		return
	}
	if x.setState(id, to); grace {
		p.ended = x.s.w.born
	}
}

// setState swaps the state. States only grow.
func (x *run) setState(id uint8, to status) {
	p := &x.side().sessions[id]
	if to < p.state && to != free {
		x.bad = "States only grow"
	}
	p.state = to
}

// move begins move() of adopt.h, which returns to ret, with moved set if it succeeded.
func (x *run) move(elem, t, from, to uint8, ret label) {
	c := x.c
	c.elem, c.start, c.from, c.to, c.ret, c.at, c.moved = elem, t, from, to, ret, moveCount, false
}

// moveCount is count_apart(1): the new session is counted up before the old one is counted down.
func (x *run) moveCount() {
	x.countApart(x.c.to, x.c.from, (*session).join)
	x.c.at = moveSwap
}

// moveSwap is the swap in reassign() of arbiter.h.
func (x *run) moveSwap() {
	c := x.c
	e := &x.side().entries[c.elem]
	if e.session != c.from || e.taken {
		c.at = moveUndo
		return
	}
	e.session = c.to
	c.at = moveCompare
	if x.off(CompareAfterSwap) {
		c.at = moveLeave
	}
}

// moveCompare is the look at the start after it: the element may be another process's by now.
func (x *run) moveCompare() {
	c := x.c
	c.at = moveLeave
	if e := &x.side().entries[c.elem]; e.start != c.start && e.start != 0 || x.off(GiveBack) && !e.of(c.start) {
		c.at = moveBack
	}
}

// moveBack is the swap back. If that process died in between, it was counted in the new session.
func (x *run) moveBack() {
	c := x.c
	e := &x.side().entries[c.elem]
	c.at = moveLeave
	if e.session == c.to && !e.taken {
		e.session = c.from
		c.at = moveUndo
	}
}

// moveLeave is count_apart(-1) of the old session.
func (x *run) moveLeave() {
	c := x.c
	s, k := x.s, x.side()
	if !s.within(k, c.from, c.to) && !s.within(k, c.to, c.from) {
		k.entries[c.elem].flags &^= flagTermed
	}
	x.countApart(c.from, c.to, (*session).leave)
	c.moved, c.at = true, c.ret
}

// moveUndo is count_apart(-1) of the new one: the process was not moved. A pass in between took another one for a member there.
func (x *run) moveUndo() {
	c := x.c
	x.side().w.due = x.side().w.due || !x.off(UndoneDue)
	x.countApart(c.to, c.from, (*session).leave)
	c.at = c.ret
}
