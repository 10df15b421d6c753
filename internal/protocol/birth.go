package protocol

import (
	"fmt"
	"math/bits"
)

// fork lists a child, unless SIGKILL is pending (copy_process). An outsider's child runs at once.
func (x *run) fork(creator, pid uint8) {
	s := x.s
	t := s.w.born
	s.w.born++
	by := &s.tasks[creator]
	s.tasks[t] = task{stage: listed, pid: pid, creator: creator, agent: by.agent,
		plain: by.plain, defiant: by.defiant}
	s.may[t], s.must[t] = s.may[creator], s.must[creator]
	if creator == 0 {
		s.tasks[t].stage = running
		return
	}
	x.s.cpus[creator].child = t
	x.enter(forkHook, creator)
}

// birthCreator is creator_entry() of birth.h, and the read of its session in enter_child().
func (x *run) birthCreator() {
	c, s := x.c, x.s
	i := x.entryOf(c.task)
	if i == none && s.w.shown && c.side == 1 {
		if x.carry(c.task, birthCreator) {
			return
		}
	}
	if i == none || x.side().entries[i].session == 0 {
		x.leave()
		return
	}
	e := &x.side().entries[i]
	c.by, c.session, c.at = i, e.session, birthInsert
	if x.off(InsertFirst) {
		c.met, c.status = true, free
		if s.condemned(x.side(), c.session) {
			c.status = condemned
		}
	}
}

// birthInsert is place() in enter_child(). If the other writer was first, it has counted.
func (x *run) birthInsert() {
	c, k := x.c, x.side()
	if i := x.entryOf(c.child); i != none {
		c.session, c.at = k.entries[i].session, birthDoomed
		return
	}
	pid := x.s.tasks[c.child].pid
	placed, again := x.place(entry{pid: pid, start: c.child, session: c.session,
		creator: c.task, since: c.child + 1})
	switch {
	case again:
	case placed:
		c.at = birthCount
	case k.at(pid) != none:
		x.bad = "a birth is not refused because its PID is used again"
	default:
		c.amid, c.at = true, birthDoomed // no room for it
	}
}

// birthCount is chain_count(BORN) in enter_child().
func (x *run) birthCount() {
	x.s.count(x.side(), x.c.session, (*session).bear, x.off(CountChain))
	x.c.at = birthFollow
}

// birthFollow is the second look at the creator's session in enter_child(), and move().
func (x *run) birthFollow() {
	c, k := x.c, x.side()
	now := k.entries[c.by].session
	c.at = birthDoomed
	if now == c.session || x.off(FollowCreator) {
		return
	}
	if i := x.s.entered(k, c.child); i != none {
		x.move(i, c.child, c.session, now, birthDoomed)
	}
}

// birthDoomed is the look at the states in on_fork(), and kill_newborn() of birth.h, or the end of on_attach().
func (x *run) birthDoomed() {
	c, s, k := x.c, x.s, x.side()
	i := s.entered(k, c.child)
	if c.ret == birthDoomed && c.moved { // it followed
		c.session = c.to
	}
	doomed := s.condemned(k, c.session)
	if x.off(StateChain) {
		doomed = k.sessions[c.session].state.kills()
	}
	if c.met { // the states were read before the insert
		doomed = c.status == condemned
	}
	switch {
	case !doomed && !c.amid && !c.second() && x.m.Limit > 0 && x.m.Level >= 3:
		c.at = birthLimit
		return
	case !c.amid && !doomed && s.paused(k, c.session):
		x.stopNewborn()
		return
	case !c.amid && (!doomed || x.off(DoomedAtBirth)):
	case c.second():
		k.w.due = k.w.due || i != none
	case x.m.Level >= 3 && c.amid:
		s.tasks[c.child].killed = true // it does not run, whatever its session's state
	case x.m.Level >= 3:
		x.kill(c.child)
	case i == none:
		s.count(k, k.entries[c.by].session, func(p *session) { p.unentered = 1 }, false)
		k.w.due = true
	default:
		k.w.due = true
		x.kill(c.task)
	}
	x.leave()
}

// stopNewborn is stop_newborn() of pause.h; in a second writer, the end of on_attach().
func (x *run) stopNewborn() {
	c, k := x.c, x.side()
	switch {
	case x.off(StopAtBirth):
	case c.second():
		k.w.due = true
	case x.m.Level >= 3:
		x.stop(c.child, idle)
		return
	default:
		k.w.due, x.s.w.told = true, true
		x.stop(c.task, idle)
		return
	}
	x.leave()
}

// birthLimit is a look at the counts in over_limit() of birth.h, before recount() or after it.
func (x *run) birthLimit() {
	c, s, p := x.c, x.s, &x.side().sessions[1]
	c.seen |= s.holders()
	switch limit := int8(x.m.Limit); {
	case !s.within(x.side(), c.session, 1) || c.amid:
		x.leave()
	case p.live > limit, p.held > limit && c.forks > 0:
		x.exceed()
	case p.held > limit:
		c.at = birthRecount
	default:
		x.leave()
	}
}

// birthRecount is recount() of reaped.h.
func (x *run) birthRecount() {
	s, k := x.s, x.side()
	for i := range k.entries {
		e := &k.entries[i]
		if e.mark == tearing && s.tasks[e.start].stage >= zombie {
			e.mark = torn
			s.count(k, e.session, func(p *session) { p.dying-- }, false)
		}
		if e.mark == torn && !s.tasks[e.start].hashed() && !x.off(Recount) || e.mark == counting && x.off(BeingCounted) {
			s.count(k, e.session, func(p *session) { p.held-- }, false)
			*e = entry{}
		}
		x.c.amid = x.c.amid || e.mark == counting
	}
	x.c.at, x.c.forks = birthLimit, 1
}

// exceed is begin_end() in over_limit(), and kill_newborn().
func (x *run) exceed() {
	if n := bits.OnesCount8(x.c.seen | x.s.holders()); n <= x.m.Limit {
		x.bad = fmt.Sprintf("MaxProcesses bounds live and unreaped members: session 1 has %d", n)
	}
	x.s.truths[1].requested = true
	x.beginEnd(1, false)
	x.side().w.due = true
	x.kill(x.c.child)
	x.leave()
}

// holders are the tasks of session 1 that hold a PID, as bits.
func (s *State) holders() (all uint8) {
	for t := uint8(1); t < s.w.born; t++ {
		if s.may[t]&(1<<1) != 0 && s.tasks[t].hashed() {
			all |= 1 << t
		}
	}
	return all
}
