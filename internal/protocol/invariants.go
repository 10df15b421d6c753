package protocol

import (
	"fmt"
	"slices"
)

// mayJoin notes that a session was opened over a task: it may be a member, and so may its children
// that are being born, and of an agent or a kept process its descendants, which follow.
func (s *State) mayJoin(root, id uint8, follow bool) {
	joined := uint64(1) << root
	if c := &s.cpus[root]; c.hook == forkHook {
		joined |= 1 << c.child
	}
	if follow {
		for t := uint8(1); t < s.w.born; t++ {
			if joined&(1<<s.tasks[t].creator) != 0 {
				joined |= 1 << t
			}
		}
	}
	for t := uint8(1); t < s.w.born; t++ {
		if joined&(1<<t) == 0 || s.tasks[t].stage == gone && t != root {
			continue
		}
		s.may[t] |= 1 << id
		if s.truths[id].kept {
			s.must[t] = 0
		}
	}
}

// followed notes that a keep has answered: the children of the process that lives are in the new session,
// and so is one that is being born, but not those that were in another session than the process.
func (s *State) followed(k *side, root, from, id uint8) {
	for t := uint8(1); t < s.w.born; t++ {
		if i := s.entered(k, t); i != none && k.entries[i].session != from && k.entries[i].session != id {
			continue
		}
		if s.tasks[t].creator == root && s.must[t] == 0 && s.may[t]&(1<<id) != 0 && s.tasks[root].stage == running {
			s.must[t] = 1 << id
		}
	}
}

// justified: a session that the task may be in has to end, because of a request or its root's exit; or a halt is in
// force, and the task has become an agent.
func (s *State) justified(t uint8) bool {
	p := &s.tasks[t]
	return s.hasToEnd(s.may[t]) || s.w.halted && p.agent && p.became
}

func (s *State) hasToEnd(sessions uint64) bool {
	for id := range s.truths {
		p := &s.truths[id]
		if sessions&(1<<id) == 0 || p.dissolved || p.root == 0 {
			continue
		}
		if p.requested || !p.outlasts && !s.tasks[p.root].alive() || p.owner > 0 && !s.tasks[p.owner].alive() {
			return true
		}
	}
	return false
}

// always is what holds in every state; "" or the sentence that does not hold.
func (m *Config) always(s *State) string {
	for side := range s.sides {
		if k := &s.sides[side]; k.w.attached {
			if bad := s.entries(k, uint8(side)); bad != "" {
				return bad
			}
			if bad := m.agentsOnce(s, k); bad != "" {
				return bad
			}
		}
	}
	k := &s.sides[s.w.ours]
	for t := uint8(1); t < s.w.born; t++ {
		p := &s.tasks[t]
		for id := uint8(1); id <= s.w.opened; id++ {
			if s.must[t]&(1<<id) == 0 || !s.truths[id].clean {
				continue
			}
			if p.stage < zombie { // section 7
				return fmt.Sprintf("the verdict of session %d is clean only with proof: task %d is %v",
					id, t, p.stage)
			}
		}
		if p.stage != running || p.killed || s.must[t] == 0 {
			continue
		}
		if bad := s.member(k, t); bad != "" {
			return bad
		}
	}
	return m.complete(s, k)
}

// complete is section 4, "Why is this complete?": when nothing runs or is due, each member of a condemned session has its
// SIGKILL, and no active session has lost its root. Level 2 leaves that to the daemon's passes.
func (m *Config) complete(s *State, k *side) string {
	if k.w.due || m.Level < 3 || !s.idle() {
		return ""
	}
	if bad := m.stops(s, k); bad != "" && !k.w.later {
		return bad
	}
	for i := range k.entries {
		e := &k.entries[i]
		if t := &s.tasks[e.start]; !e.linked || e.start == 0 || !t.alive() || t.killed {
			continue
		}
		if s.condemned(k, e.session) {
			return fmt.Sprintf("a child that the walk did not meet is killed by its own birth: task %d", e.start)
		}
		if k.some(e.session, func(p *session) bool { return p.state == active && s.orphaned(k, p) }) {
			return fmt.Sprintf("the death of a root makes a pass due: task %d lives", e.start)
		}
	}
	return ""
}

// entries checks the entries of a side.
func (s *State) entries(k *side, side uint8) string {
	for i := range k.entries {
		e := &k.entries[i]
		if !e.linked || e.start == 0 || e.mark != absent || e.session == 0 || s.swapping(side, uint8(i)) {
			continue
		}
		switch {
		case e.flags&flagProtected != 0: // trap 11
			return fmt.Sprintf("a member cannot be protected: task %d", e.start)
		case s.may[e.start]&(1<<e.session) == 0: // section 2
			return fmt.Sprintf("never a wrong member: task %d in session %d", e.start, e.session)
		case !k.sessions[e.session].present && s.tasks[e.start].stage != listed: // section 4, Nesting; a child that is born follows its creator
			return fmt.Sprintf("the record of a session is removed only when its subtree is empty: session %d of task %d",
				e.session, e.start)
		}
	}
	for id := range k.sessions {
		p := &k.sessions[id]
		if p.present && p.parent > 0 && !k.sessions[p.parent].present && !s.opening(side, uint8(id)) {
			return fmt.Sprintf("the record of a session is removed only when its subtree is empty: session %d around %d",
				p.parent, id)
		}
	}
	return ""
}

// swapping: a CPU has swapped the session of this element, and not compared its start yet (trap 20).
func (s *State) swapping(side, elem uint8) bool {
	return slices.ContainsFunc(s.cpus, func(c cpu) bool {
		return (c.at == moveCompare || c.at == moveBack || c.at == openCompare) && c.side == side && c.elem == elem
	})
}

// opening: a CPU has made this record, and has not looked at the state of the session around it.
func (s *State) opening(side, id uint8) bool {
	return slices.ContainsFunc(s.cpus, func(c cpu) bool {
		return (c.at == openNest || c.at == openNested) && c.side == side && c.session == id
	})
}

// member checks a running task that has to be a member: section 4, Birth.
func (s *State) member(k *side, t uint8) string {
	i := s.entered(k, t)
	for id := uint8(1); id <= s.w.opened; id++ {
		if s.must[t]&(1<<id) == 0 {
			continue
		}
		switch {
		case i == none && k.sessions[id].unentered > 0:
		case i == none || k.entries[i].session == 0:
			return fmt.Sprintf("a member's child that cannot be entered does not run: task %d of session %d", t, id)
		case !s.within(k, k.entries[i].session, id) && !s.swapping(s.w.ours, i):
			return fmt.Sprintf("a restart is never a gap in attribution: task %d is in session %d, not in %d",
				t, k.entries[i].session, id)
		}
	}
	return ""
}

// agentsOnce checks the sessions that execs opened: section 7, Agent rules, and trap 21. Of a root that exited before it was
// entered, and whose PID is used again, nobody can tell who counts the death: the session stands until a settle.
func (m *Config) agentsOnce(s *State, k *side) string {
	for id := range k.sessions {
		p := &k.sessions[id]
		if !p.present || p.flags&sessionAgent == 0 || p.state == dissolved {
			continue
		}
		if r := &s.tasks[p.root]; !r.became && r.stage != gone && k.sessions[p.parent].flags&sessionAgent != 0 {
			return fmt.Sprintf("a child has its creator's name until it execs: session %d over task %d",
				id, p.root)
		}
		for other := range k.sessions {
			if q := &k.sessions[other]; other != id && q.present && q.root == p.root && q.flags&sessionAgent != 0 && q.state == active &&
				p.state == active && s.tasks[p.root].stage < reaped && !s.opens(uint8(id)) && !s.opens(uint8(other)) {
				return fmt.Sprintf("an exec opens one session: %d and %d over task %d", id, other, p.root)
			}
		}
	}
	return ""
}

// opens: a CPU is opening this session.
func (s *State) opens(id uint8) bool {
	in := func(at label) bool { return at >= openRecord && at <= openLeave }
	return slices.ContainsFunc(s.cpus, func(c cpu) bool { return (in(c.at) || in(c.after)) && c.session == id })
}

// quiet is what holds when no CPU, and no daemon, has anything left to do.
func (m *Config) quiet(s *State) string {
	if !m.Second && m.Times[skip] > 0 {
		return "" // a reconcile pass mends it, see trap 2
	}
	k := &s.sides[s.w.ours]
	for id := uint8(1); id <= s.w.opened; id++ {
		p := &k.sessions[id]
		if !p.present {
			continue
		}
		live, dying, unreaped := s.recount(k, id)
		if s.w.halted && p.state == active && live > 0 {
			return fmt.Sprintf("a halt ends every session: session %d goes on", id)
		}
		if p.live != live || m.Second && p.dying != dying || p.held-p.live != unreaped {
			return fmt.Sprintf("a death is counted once, however many writers see it: session %d has live %d, dying %d, unreaped %d; there are %d, %d, %d",
				id, p.live, p.dying, p.held-p.live, live, dying, unreaped)
		}
	}
	for i := range k.entries {
		e := &k.entries[i]
		if g := s.tasks[e.start].stage; e.linked && (g >= zombie && e.mark == absent && e.start > 0 || g == gone && m.Times[skip] == 0) {
			return fmt.Sprintf("the map of processes holds the entry of a live member, or of a dead one until it is reaped: task %d is %v", e.start, g)
		}
	}
	if bad := m.stops(s, k); bad != "" {
		return bad
	}
	for t := uint8(1); t < s.w.born; t++ {
		p := &s.tasks[t]
		if !p.alive() || p.killed {
			continue
		}
		if s.hasToEnd(s.must[t]) && !s.hasGrace(k, t) {
			return fmt.Sprintf("when a session ends no member is alive: task %d is", t)
		}
		i := s.entered(k, t)
		if i != none && k.entries[i].flags&flagProtected != 0 {
			continue
		}
		if p.barred {
			return fmt.Sprintf("while a halt is in force agents die at their exec: task %d lives", t)
		}
		if p.owed && int(s.w.opened) < m.Sessions && !s.wasDissolved(t) && (i == none || k.sessions[k.entries[i].session].root != t) {
			return fmt.Sprintf("a session over a process that takes such a name: task %d has none", t)
		}
	}
	return ""
}

// stops is what a pause and its end promise, when nothing is due.
func (m *Config) stops(s *State, k *side) string {
	if m.Times[pause] == 0 {
		return ""
	}
	for i := range k.entries {
		e := &k.entries[i]
		p := &s.tasks[e.start]
		if !e.linked || e.start == 0 || e.session == 0 || e.flags&flagProtected != 0 || !p.alive() || p.killed {
			continue
		}
		switch paused := s.paused(k, e.session); {
		case paused && p.stopped == 0:
			return "nobody runs in a paused session"
		case !paused && p.stopped == stoppedByUs:
			return "after a resume nobody stays stopped by us"
		}
	}
	return ""
}

// hasGrace: no session that the task is in is beyond its grace.
func (s *State) hasGrace(k *side, t uint8) bool {
	i := s.entered(k, t)
	return i != none && !s.condemned(k, k.entries[i].session) &&
		k.some(k.entries[i].session, func(p *session) bool { return p.state == ending && !p.late })
}

// wasDissolved: a session over the task was dissolved.
func (s *State) wasDissolved(t uint8) bool {
	return slices.ContainsFunc(s.truths, func(p truth) bool { return p.root == t && p.dissolved })
}

// recount is what the counts of a session have to be.
func (s *State) recount(k *side, id uint8) (live, dying, unreaped int8) {
	for i := range k.entries {
		e := &k.entries[i]
		if !e.linked || e.start == 0 || e.session == 0 || !s.within(k, e.session, id) {
			continue
		}
		if e.mark == absent {
			live++
			continue
		}
		if unreaped++; e.mark == tearing {
			dying++
		}
	}
	return live, dying, unreaped
}

// forget leaves of a task that is gone only what later states can differ in.
func (s *State) forget(t uint8) {
	p := &s.tasks[t]
	*p = task{stage: gone, pid: p.pid, creator: p.creator}
}
