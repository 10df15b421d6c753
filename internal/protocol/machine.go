package protocol

// Config bounds a run of the machine.
type Config struct {
	Level  int  // 2: only the daemon passes and signals; 3: not at an exit
	Second bool // the fentry programs are attached; if not, only exits are skipped
	Tasks  int  // processes, without init
	PIDs   int  // fewer than Tasks: some are reused
	// Sessions and Entries are the room for them. A session's slot is not used again.
	Sessions, Entries int
	Agents            bool // a rule looks for agents
	Depth             int  // how deep sessions may be nested; 0: any
	Limit             int  // of processes of session 1; 0: none
	// Members is how many tasks session 1 begins with. The first one is its root.
	Members int
	// Carried: they are an agent's, and a take-over has carried them.
	Carried bool
	Times   map[action]int // how often an action may happen; fork, exit and reap are free
	Off     Switch
	Stall   bool // an exec may wait between its name and its hooks
	Single  bool // no state is reduced
	Busy    int  // how many hooks run at once; 0: any
	Whole   bool // a pass is one step
}

// off reports whether the precaution is taken away.
func (m *Config) off(x Switch) bool { return m.Off&x != 0 }

// Move is one way to go on from a state.
type Move struct {
	action action
	cpu    uint8
	arg    uint8
}

// fair moves happen in the end, whatever else does. A state without one is quiet.
func (v Move) fair() bool {
	switch v.action {
	case step, freeTask, die, heed, hear, look, pass, ripen, expire:
		return true
	}
	return false
}

// enters: a hook begins.
func (v Move) enters() bool {
	switch v.action {
	case fork, strike, exec, execOther, exit, die, freeTask, pass:
		return true
	}
	return false
}

// run is one step: the state that it changes, and the CPU that takes it.
type run struct {
	m   *Config
	s   *State
	c   *cpu
	bad string // what the step broke
}

func (x *run) off(p Switch) bool { return x.m.off(p) }

func (x *run) side() *side { return &x.s.sides[x.c.side] }

// start puts a CPU at a label, with no registers but the task.
func (x *run) start(n uint8, at label, side, task uint8) {
	x.c = &x.s.cpus[n]
	*x.c = cpu{}
	x.c.at, x.c.side, x.c.task = at, side, task
}

const unlimited = 0xff

// rest ends what the CPU does.
func (x *run) rest() { *x.c = cpu{} }

// Begin is the first state: init, and one side without a session.
func (m *Config) Begin() *State {
	s := m.newState()
	s.tasks[0] = task{stage: running}
	s.w.born = 1
	s.sides[0].w.attached = true
	s.sides[0].w.agents = m.Agents
	s.w.left[fork], s.w.left[exit] = unlimited, unlimited
	for a, n := range m.Times {
		s.w.left[a] = uint8(n)
	}
	m.open(s)
	return s
}

// open makes the members that a run begins with.
func (m *Config) open(s *State) {
	if m.Members == 0 {
		return
	}
	k := &s.sides[0]
	for t := 1; t <= m.Members; t++ {
		s.may[t], s.must[t] = 1<<1, 1<<1
	}
	s.tasks[1] = task{stage: running, pid: 1}
	s.truths[1] = truth{root: 1, open: true}
	k.entries[1] = entry{linked: true, pid: 1, start: 1, session: 1, since: 2, flags: flagRoot}
	k.sessions[1] = session{present: true, root: 1, live: 1, held: 1, state: active, created: 2}
	for t := uint8(2); int(t) <= m.Members; t++ {
		s.tasks[t] = task{stage: running, pid: t, creator: t - 1}
		k.entries[t] = entry{linked: true, pid: t, start: t, session: 1, creator: t - 1, since: t}
		k.sessions[1].join()
		k.sessions[1].forks++
	}
	s.w.born, s.w.opened = uint8(m.Members)+1, 1
	if !m.Carried {
		return
	}
	s.tasks[1].agent, s.tasks[1].became, s.tasks[1].early = true, true, true
	k.sessions[1].flags = sessionAgent
	k.w.agents = false
	copy(s.sides[1].mem, k.mem)
	s.w.shown = true
	s.cpus[daemon].at, s.cpus[daemon].side = takeOverAgents, 1
}

// next calls visit for each move from s, after it has put the state that it leads to into to, with what it broke.
func (m *Config) next(s, to *State, visit func(v Move, bad string)) {
	x := run{m: m, s: to}
	busy := 0
	try := func(v Move) {
		if m.Busy > 0 && busy >= m.Busy && v.enters() {
			return
		}
		copy(to.mem, s.mem)
		x.bad = ""
		if x.take(v) {
			visit(v, x.bad)
		}
	}
	for i := range s.cpus {
		if c := &s.cpus[i]; c.at != idle {
			busy += min(i, 1)
			try(Move{step, uint8(i), 0})
			if s.w.left[skip] > 0 && c.skippable() && (m.Second || c.hook == exitHook) {
				try(Move{skip, uint8(i), 0})
			}
			if s.w.left[lose] > 0 && c.at == buryErase {
				try(Move{lose, uint8(i), 0})
			}
		}
	}
	for t := uint8(1); t < s.w.born; t++ {
		m.ofTask(s, t, try)
	}
	if s.w.left[outsider] > 0 {
		m.births(s, outsider, 0, try)
	}
	if m.Level >= 3 && s.cpus[s.host()].at == idle {
		for side := range s.sides {
			if s.sides[side].w.attached && s.sides[side].w.due {
				try(Move{pass, s.host(), uint8(side)})
			}
			if s.sides[side].w.later {
				try(Move{ripen, s.host(), uint8(side)})
			}
		}
	}
	if s.cpus[daemon].at == idle {
		m.ofDaemon(s, try)
	}
}

// births are the forks of a task: of a PID that was free from the start, and of one that was used.
func (m *Config) births(s *State, a action, t uint8, try func(Move)) {
	if int(s.w.born) > m.Tasks {
		return
	}
	var used, held uint8
	for i := uint8(1); i < s.w.born; i++ {
		used |= 1 << s.tasks[i].pid
		if s.tasks[i].hashed() {
			held |= 1 << s.tasks[i].pid
		}
	}
	fresh, again := false, false
	for pid := uint8(1); pid <= uint8(m.PIDs); pid++ {
		switch {
		case used&(1<<pid) == 0 && !fresh:
			fresh = true
			try(Move{a, t, pid})
		case used&^held&(1<<pid) != 0 && !again:
			again = true
			try(Move{a, t, pid})
		}
	}
}

// ofTask is what a task may do, or what may happen to it.
func (m *Config) ofTask(s *State, t uint8, try func(Move)) {
	p := &s.tasks[t]
	if s.cpus[t].at != idle {
		return
	}
	switch p.stage {
	case running:
		if p.killed && !p.dumping {
			try(Move{die, t, t})
			return
		}
		if !p.killed && p.stopped == 0 {
			if s.w.left[fork] > 0 {
				m.births(s, fork, t, try)
			}
			for _, a := range []action{exec, execOther} {
				if s.w.left[a] > 0 && !p.became {
					try(Move{a, t, t})
				}
			}
			if s.w.left[strike] > 0 && t != 1 {
				try(Move{strike, t, 1}) // the root of the session that is there at the beginning
			}
			if s.w.left[dump] > 0 {
				try(Move{dump, t, t})
			}
		}
		if s.w.left[exit] > 0 && p.stopped == 0 {
			try(Move{exit, t, t})
		}
		if p.pending {
			try(Move{heed, t, t})
		}
		for _, a := range []action{suspend, wake} {
			if s.w.left[a] > 0 && !p.killed {
				try(Move{a, t, t})
			}
		}
	case zombie:
		try(Move{reap, t, t})
	case reaped:
		try(Move{freeTask, t, t})
	}
}

// ofDaemon is what a daemon that is not busy may do: requests, and what follows from what it learns.
func (m *Config) ofDaemon(s *State, try func(Move)) {
	if m.Level == 2 && s.w.told {
		try(Move{hear, daemon, 0})
	}
	if (m.Level == 2 || m.asks()) && (m.Level > 2 || !s.w.told) && m.mustLook(s) {
		try(Move{look, daemon, 0})
	}
	for t := uint8(1); t < s.w.born; t++ {
		for _, a := range []action{create, keep, protect} {
			if s.w.left[a] > 0 && s.tasks[t].alive() && (a == protect || !s.w.halted) {
				try(Move{a, daemon, t})
			}
		}
	}
	k := &s.sides[s.w.ours]
	for id := uint8(1); id <= s.w.opened; id++ {
		if !k.sessions[id].present || !s.truths[id].open {
			continue
		}
		for _, a := range []action{end, endPatient, dissolve, settle, release, pause, resume} {
			if s.w.left[a] > 0 {
				try(Move{a, daemon, id})
			}
		}
		if k.sessions[id].state == ending && !k.sessions[id].late {
			try(Move{expire, daemon, id})
		}
	}
	for _, a := range []action{reconcile, takeOver, halt} {
		if s.w.left[a] > 0 {
			try(Move{a, daemon, 0})
		}
	}
}

// mustLook is whether the daemon's census finds a session without its root, or a member that has to be ended still.
func (m *Config) mustLook(s *State) bool {
	k := &s.sides[s.w.ours]
	for id := range k.sessions {
		p := &k.sessions[id]
		if p.present && p.state == active && !m.off(Look) && s.orphaned(k, p) {
			return true
		}
	}
	if m.stops(s, k) != "" {
		return true
	}
	for i := range k.entries {
		e := &k.entries[i]
		if t := &s.tasks[e.start]; e.linked && e.start > 0 && e.flags&flagProtected == 0 && t.alive() &&
			!t.killed && s.condemned(k, e.session) {
			return true
		}
	}
	return false
}

// asks: the daemon that answers these requests lives, so it looks at every level.
func (m *Config) asks() bool { return m.Times[protect]+m.Times[keep]+m.Times[create] > 0 }

// take makes the move. False: it cannot be made.
func (x *run) take(v Move) bool {
	s := x.s
	if _, bound := x.m.Times[v.action]; bound {
		if s.w.left[v.action] == 0 {
			return false
		}
		s.w.left[v.action]--
	}
	switch v.action {
	case step, skip, lose:
		x.c = &s.cpus[v.cpu]
		if x.c.hook != noHook && !x.side().w.attached {
			x.from(x.c.phase + 1) // its side was detached
		} else if v.action == step || v.action == lose {
			told := s.w.told
			steps[x.c.at].do(x)
			if v.action == lose {
				s.w.told = told
			}
		} else {
			x.leave()
		}
	case fork, outsider:
		x.fork(v.cpu, v.arg)
	case exec:
		x.exec(v.arg, true, false)
	case execPlain:
		x.exec(v.arg, true, true)
	case execOther:
		x.exec(v.arg, false, false)
	case suspend:
		if s.tasks[v.arg].stopped > 0 {
			return false
		}
		s.tasks[v.arg].stopped, s.tasks[v.arg].pending = x.stopper(v.arg), s.w.left[wake] > 0
	case wake:
		return x.woken(v.arg)
	case heed:
		s.tasks[v.arg].pending = false
	case defy:
		s.tasks[v.arg].defiant = true
	case exit, die:
		s.tasks[v.arg].stage = exiting
		x.enter(exitHook, v.arg)
	case strike:
		x.start(v.cpu, strikeSender, s.w.ours, v.cpu)
		x.c.child = v.arg
	case dump:
		s.tasks[v.arg].dumping = true
	case reap:
		s.tasks[v.arg].stage = reaped
		if !s.remembered(v.arg) {
			s.forget(v.arg) // no program finds it
		}
	case freeTask:
		s.tasks[v.arg].stage = gone
		x.enter(freeHook, v.arg)
	case pass:
		x.start(s.host(), passTake, v.arg, 0)
		if x.m.Whole {
			x.passTake()
		}
	case hear:
		s.w.told = false
		x.start(daemon, passTake, s.w.ours, 0)
	case look:
		x.start(daemon, passTake, s.w.ours, 0)
	case ripen:
		s.sides[v.arg].w.due, s.sides[v.arg].w.later = true, false
	case expire:
		s.sides[s.w.ours].sessions[v.arg].late = true
		s.sides[s.w.ours].w.due = true
		if x.m.Level == 2 {
			s.w.told = true
		}
	default:
		return x.verb(v.action, v.arg)
	}
	return true
}

// exec gives a task another name.
func (x *run) exec(t uint8, agent, plain bool) {
	p := &x.s.tasks[t]
	p.agent, p.plain, p.became, p.owed = agent, plain, true, agent && !plain
	p.barred = agent && x.s.w.halted
	p.early = p.early && x.off(LastExec)
	if x.m.Stall {
		x.start(t, execNamed, 0, t)
		return
	}
	x.enter(execHook, t)
}

// execNamed: an exec has given a task its name some time before its hooks run.
func (x *run) execNamed() { x.enter(execHook, x.c.task) }
