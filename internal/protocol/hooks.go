package protocol

// hook is what the kernel runs programs for.
type hook uint8

const (
	noHook hook = iota
	forkHook
	execHook
	exitHook
	freeHook
)

// program is one program of a hook.
type program struct {
	first    label
	side     uint8
	second   bool // a second writer: it runs under a lock, and cannot be skipped
	sentence int  // the level from which a program follows that carries out what is due
}

// programs are in the order in which they run. Those of a side run if it is attached by then.
var programs = [...][]program{
	forkHook: {
		{first: birthCreator, side: 0, second: true}, {first: birthCreator, side: 1, second: true},
		{first: birthCreator, side: 0, sentence: 3}, {first: birthCreator, side: 1, sentence: 3},
	},
	execHook: {{first: execAgent, side: 0, sentence: 3}, {first: execAgent, side: 1, sentence: 3}},
	exitHook: {
		{first: deathLook, side: 0, sentence: 4}, {first: deathLook, side: 1, sentence: 4},
		{first: notifyLook, side: 0, second: true}, {first: notifyLook, side: 1, second: true},
	},
	freeHook: {{first: freeLook, side: 0}, {first: freeLook, side: 1}},
}

// second reports whether the CPU is in a second writer.
func (c *cpu) second() bool { return c.hook != noHook && programs[c.hook][c.phase].second }

// skippable: at the first step of a program that the kernel's recursion guard can skip.
func (c *cpu) skippable() bool {
	return c.hook != noHook && !c.second() && c.at == programs[c.hook][c.phase].first && !c.passed
}

// enter begins a hook in the task.
func (x *run) enter(h hook, t uint8) {
	x.c = &x.s.cpus[t]
	child := x.c.child
	*x.c = cpu{}
	x.c.hook, x.c.task, x.c.child = h, t, child
	x.from(0)
}

// leave ends the bookkeeping of a program: its sentence follows if one is due, or the next program.
func (x *run) leave() {
	p := programs[x.c.hook][x.c.phase]
	if p.sentence > 0 && x.m.Level >= p.sentence && !x.c.passed && x.side().w.due {
		x.c.passed, x.c.at, x.c.ret = true, passTake, idle
		return
	}
	x.from(x.c.phase + 1)
}

// back continues at a label. idle: what the CPU does is over.
func (x *run) back(to label) {
	switch {
	case to != idle:
		x.c.at = to
	case x.c.hook != noHook:
		x.leave()
	default:
		x.rest()
	}
}

// from goes to the next program that is attached, or to the end of the hook.
func (x *run) from(phase uint8) {
	h, t, child := x.c.hook, x.c.task, x.c.child
	for ; int(phase) < len(programs[h]); phase++ {
		p := programs[h][phase]
		if !x.s.sides[p.side].w.attached || p.second && (!x.m.Second || x.off(SecondWriter)) {
			continue
		}
		*x.c = cpu{}
		x.c.at, x.c.hook, x.c.phase, x.c.side, x.c.task, x.c.child = p.first, h, phase, p.side, t, child
		return
	}
	*x.c = cpu{}
	switch h {
	case forkHook:
		x.s.tasks[child].stage = running
	case exitHook:
		x.s.tasks[t].stage = zombie
	case freeHook:
		x.s.forget(t)
	}
}

func init() {
	type x = *run
	tell([]stepRow{
		{strikeSender, rChild, "reads its own entry, as it sends SIGKILL", x.strikeSender},
		{strikeReceiver, rChild | rFrom | rMoved | rTook,
			"looks whether the receiver is spared", x.strikeReceiver},
	})
}

// strikeSender is the look at the sender in crosses() of guard.h.
func (x *run) strikeSender() {
	c, s, k := x.c, x.s, x.side()
	if i := s.entered(k, c.task); i != none {
		c.from = k.entries[i].session
		c.moved = c.from != 0 && k.sessions[c.from].root == c.task
	}
	c.took, c.at = uint8(s.must[c.task]), strikeReceiver
}

// strikeReceiver is spared_from(): each session of the machine spares its root. What is not refused kills.
func (x *run) strikeReceiver() {
	c, s, k := x.c, x.s, x.side()
	to, id, refused := c.child, uint8(0), false
	if i := s.entered(k, to); i != none {
		id = k.entries[i].session
	}
	if id != 0 && c.from != 0 {
		inside := s.within(k, c.from, id) && !x.off(SpareInside) || c.from == id
		equal := c.moved && (c.from == id || x.off(SpareEqual))
		refused = k.sessions[id].root == to && k.sessions[id].state != dissolved && inside && !equal
	}
	spared := s.truths[id].root == to && to != c.task && !s.truths[id].dissolved
	// It was and is a member: a signal may come before it is one.
	member := uint64(c.took)&s.must[c.task]&(1<<id) != 0
	switch {
	case refused && (!spared || s.may[c.task]&(1<<id) == 0):
		x.bad = "a signal is refused only to a root, and from a member"
	case refused || !s.tasks[to].alive():
	case spared && member && s.must[to]&(1<<id) != 0:
		x.bad = "a session's root is spared from its members"
	default:
		s.tasks[to].killed, s.tasks[to].dumping = true, false
	}
	x.rest()
}
