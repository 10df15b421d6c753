package protocol

import (
	"cmp"
	"slices"
	"unsafe"
)

// reduce makes one state of those from which the same follows, and takes at once the steps whose moment makes no
// difference.
func (m *Config) reduce(s *State, tell func(Move)) {
	if m.Single {
		return
	}
	m.count(s, tell)
	if s.w.ours == 1 {
		m.leaveDetached(s)
	}
	for i := range s.cpus {
		if s.cpus[i].at != idle {
			s.cpus[i].tidy()
		}
	}
	for i := range s.cpus {
		for c := &s.cpus[i]; m.Off == 0 && c.at != idle && c.walk < s.w.born && m.passesOver(s, c); {
			c.walk++
		}
	}
	m.tidy(s)
}

// count takes at once the steps that only count, if nobody can tell when they happen: additions to the counts of
// records that exist commute with every step but those that read counts, of a settle, a release or a limit, and those that take
// a record back. So each order of the other steps leads to the same states, but for the steps that are under way.
func (m *Config) count(s *State, tell func(Move)) {
	if m.Limit > 0 || m.Times[settle]+m.Times[release] > 0 || s.unsure() {
		return
	}
	x := run{m: m, s: s}
	for i := range s.cpus {
		for v := (Move{step, uint8(i), 0}); steps[s.cpus[i].at].keeps&adds != 0; x.take(v) {
			if tell != nil {
				tell(v)
			}
		}
	}
}

// leaveDetached ends the programs of the side that was detached: they find nothing there.
func (m *Config) leaveDetached(s *State) {
	x := run{m: m, s: s}
	for i := range s.cpus {
		x.c = &s.cpus[i]
		switch {
		case x.c.at == idle || x.side().w.attached:
		case x.c.hook != noHook:
			x.from(x.c.phase + 1)
		default:
			x.rest()
		}
	}
}

// passesOver: whatever happens, the CPU's walk will not do anything about its next task.
func (m *Config) passesOver(s *State, c *cpu) bool {
	t, k := c.walk, &s.sides[c.side]
	p := &s.tasks[t]
	switch c.at {
	case passVisit:
		return p.stage >= reaped || m.outside(s, t)
	case carryVisit:
		if !p.alive() || m.outside(s, t) {
			return true
		}
		i, old := s.entered(k, t), s.entered(&s.sides[0], t)
		return i != none && old != none && k.entries[i].session == s.sides[0].entries[old].session && !m.mayExec(s, t) && !s.concerned(t)
	case lateVisit:
		if !p.alive() || p.early || m.mayExec(s, t) {
			return !p.alive() || p.early
		}
		i := s.entered(k, t)
		return !p.agent || !p.became || i != none && k.sessions[k.entries[i].session].root == t
	}
	return false
}

// mayExec: the task is in an exec, or may exec still.
func (m *Config) mayExec(s *State, t uint8) bool {
	p, c := &s.tasks[t], &s.cpus[t]
	return c.hook == execHook || c.at == execNamed || p.alive() && !p.became && s.w.left[exec]+s.w.left[execOther] > 0
}

// concerned: another program has the task in a register, perhaps.
func (s *State) concerned(t uint8) bool {
	return slices.ContainsFunc(s.cpus, func(c cpu) bool { return c.at != idle && (c.child == t || c.elem == t || c.to == t || c.start == t) })
}

// outside: the task has no entry, and will not get one.
func (m *Config) outside(s *State, t uint8) bool {
	p := &s.tasks[t]
	if s.sides[0].at(p.pid) != none || s.sides[1].at(p.pid) != none || s.concerned(t) {
		return false
	}
	return !p.alive() || !m.mayExec(s, t) && s.w.left[create]+s.w.left[keep]+s.w.left[protect]+s.w.left[reconcile] == 0
}

// tidy clears what no step reads any more: memory of deleted entries, and what a dead task was. It sorts entries that no program points to.
func (m *Config) tidy(s *State) {
	pointers := uint64(0)
	for i := range s.cpus {
		c := &s.cpus[i]
		pointers |= 1<<c.elem | 1<<c.by | 1<<c.from
	}
	for t := uint8(1); t < s.w.born; t++ {
		if p := &s.tasks[t]; p.stage >= exiting {
			*p = task{stage: p.stage, pid: p.pid, creator: p.creator, became: p.became && p.stage != gone}
			if p.stage == zombie && int(s.w.born) > m.Tasks && !s.remembered(t) && m.outside(s, t) {
				s.forget(t) // nobody needs its PID
			}
		}
		if s.tasks[t].stage >= zombie {
			s.must[t] = 0
		}
		if s.tasks[t].stage == gone && !s.has(&s.sides[0], t) && !s.has(&s.sides[1], t) && !s.concerned(t) {
			s.may[t] = 0
		}
	}
	if m.Level > 2 {
		s.w.told = false
	}
	for i := range s.sides {
		all := s.sides[i].entries
		for e := range all {
			if !all[e].linked && pointers&(1<<e) == 0 {
				all[e] = entry{}
			} else if d := all[e]; d.linked && d.mark != absent {
				all[e] = entry{linked: true, pid: d.pid, start: d.start, mark: d.mark, session: d.session, taken: true}
			}
		}
		if pointers <= 1 {
			slices.SortFunc(all[1:], func(a, b entry) int { return cmp.Compare(a.pid-1, b.pid-1) }) // free ones last
		}
	}
}

// places are the bytes of these registers in a cpu.
var places = [...]uintptr{
	unsafe.Offsetof(cpu{}.child), unsafe.Offsetof(cpu{}.elem), unsafe.Offsetof(cpu{}.by), unsafe.Offsetof(cpu{}.start), unsafe.Offsetof(cpu{}.session),
	unsafe.Offsetof(cpu{}.from), unsafe.Offsetof(cpu{}.to), unsafe.Offsetof(cpu{}.took), unsafe.Offsetof(cpu{}.moved), unsafe.Offsetof(cpu{}.met),
	unsafe.Offsetof(cpu{}.status), unsafe.Offsetof(cpu{}.flags), unsafe.Offsetof(cpu{}.ret),
}

// tidy clears the registers that no step reads any more.
func (c *cpu) tidy() {
	if c.at == carryVisit {
		c.met, c.moved = c.met || c.moved, false // as the visit begins
	}
	keeps := steps[c.at].keeps | steps[c.after].keeps
	if keeps&rRet != 0 {
		keeps |= steps[c.ret].keeps
	}
	if c.hook == forkHook {
		keeps |= rChild
	}
	for i, at := range places {
		if keeps&(1<<i) == 0 {
			*(*byte)(unsafe.Add(unsafe.Pointer(c), at)) = 0
		}
	}
}
