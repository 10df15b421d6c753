package protocol

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// Seen is one step of a session that the kernel side reported: a visible step.
type Seen struct {
	CPU     int
	Kind    SeenKind
	Process int // the root is 1, others are numbered in the order of their births, up to Slice.Processes
	PID     int // of a birth: a number from 1, the root's
	Creator int // of a birth
	Name    int // of a birth and an exec
	State   int // of a turn, as in bpf/lineage.h
}

// SeenKind is what was reported.
type SeenKind int

// A turn is a new state of the session.
const (
	SeenBirth SeenKind = iota
	SeenExec
	SeenExit
	SeenReaped
	SeenTurn
)

// Slice is all that was reported of one session, until its dead are reaped, at level 4 or 2. Only the steps of one CPU
// are in their order.
type Slice struct {
	Level     int
	Processes int
	Name      int // the root's
	Steps     []Seen
}

// match is a state of the machine, and how much of the slice led to it.
type match struct {
	s    *State
	at   []byte // of each CPU, its next step
	name []byte // of each task
	said status // the last state that was reported
}

// Explain searches, depth first, for a run of the machine with the visible steps in an order that each CPU's order
// allows. visited more than most: it has given up. A task has its process's number.
func (l *Slice) Explain(most int) (legal bool, visited int) {
	m := &Config{Level: l.Level, Tasks: l.Processes, PIDs: l.Processes,
		Sessions: 1, Entries: l.Processes, Members: 1}
	var cpus [][]Seen
	for _, e := range l.Steps {
		for e.CPU >= len(cpus) {
			cpus = append(cpus, nil)
		}
		cpus[e.CPU] = append(cpus[e.CPU], e)
	}
	first := match{s: m.Begin(), at: make([]byte, len(cpus)), name: make([]byte, l.Processes+1), said: active}
	first.s.w.born, first.name[1] = uint8(l.Processes+1), byte(l.Name)
	stack, seen := []match{first}, map[uint64]bool{}
	for len(stack) > 0 && len(seen) <= most {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		over := p.said == empty
		for t := range p.s.tasks {
			over = over && !p.s.remembered(uint8(t))
		}
		for cpu, steps := range cpus {
			if int(p.at[cpu]) == len(steps) {
				continue
			}
			over = false
			to := match{s: m.newState(), at: slices.Clone(p.at), name: slices.Clone(p.name), said: p.said}
			copy(to.s.mem, p.s.mem)
			if to.at[cpu]++; to.advance(&run{m: m, s: to.s}, &steps[p.at[cpu]]) && !seen[to.key()] {
				seen[to.key()] = true
				stack = append(stack, to)
			}
		}
		if over {
			return true, len(seen)
		}
	}
	return false, len(seen)
}

var seed = maphash.MakeSeed()

// key is the state in a few bytes.
func (p *match) key() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, b := range [][]byte{p.s.mem, p.at, p.name, {byte(p.said)}} {
		_, _ = h.Write(b)
	}
	return h.Sum64()
}

// advance takes the steps that one visible step stands for. False: it cannot be, or the machine does not agree.
// A hook touches its own task alone until it looks for what is due. A pass only adds signals: it ends as late as it can,
// before the next step of its task.
func (p *match) advance(x *run, e *Seen) bool {
	if e.Kind == SeenTurn {
		return p.turn(x, status(e.State))
	}
	s, t := p.s, uint8(e.Process)
	if e.Kind == SeenBirth {
		t = uint8(e.Creator)
	}
	finish(x, t)
	is := &s.tasks[t]
	switch {
	case e.Kind == SeenBirth && is.stage == running && !is.killed && s.tasks[e.Process].stage == unborn &&
		int(p.name[t]) == e.Name && p.free(x, uint8(e.PID)):
		born := s.w.born
		s.w.born, p.name[e.Process] = uint8(e.Process), byte(e.Name)
		x.take(Move{fork, t, uint8(e.PID)})
		s.w.born = born
	case e.Kind == SeenExec && is.stage == running: // it may have been killed since the call
		p.name[t] = byte(e.Name)
		x.take(Move{exec, t, t})
	case e.Kind == SeenExit && is.stage == running:
		x.take(Move{exit, t, t})
	case e.Kind == SeenReaped && (is.stage == zombie || is.stage == reaped) && s.remembered(t):
		if is.stage == zombie {
			x.take(Move{reap, t, t})
		}
		x.take(Move{freeTask, t, t})
	default:
		return false
	}
	for c := &s.cpus[t]; c.at != idle && c.at != passVisit; {
		x.take(Move{step, t, 0})
	}
	k := &s.sides[0]
	for i := range k.entries {
		if !k.entries[i].linked {
			k.entries[i] = entry{}
		}
	}
	slices.SortFunc(k.entries[1:], func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	switch e.Kind {
	case SeenExit:
		return x.bad == "" && s.remembered(t)
	case SeenReaped:
		return x.bad == "" && !s.remembered(t)
	}
	return x.bad == "" && s.has(k, uint8(e.Process))
}

// finish lets a CPU do what it is at.
func finish(x *run, cpu uint8) {
	for x.s.cpus[cpu].at != idle {
		x.take(Move{step, cpu, 0})
	}
}

// turn is a new state. A request may condemn a session at any time; a settle is of one where nothing happens any more.
func (p *match) turn(x *run, to status) bool {
	id := &p.s.sides[0].sessions[1]
	switch {
	case to == condemned && id.state == active && p.s.cpus[daemon].at == idle:
		x.take(Move{end, daemon, 1})
		x.take(Move{step, daemon, 0})
	case to == empty && p.said == condemned:
		for cpu := range p.s.cpus {
			finish(x, uint8(cpu))
		}
		x.take(Move{settle, daemon, 1})
		finish(x, daemon)
	}
	said := p.said
	p.said = to
	return said < to && id.state == to
}

// free reports whether no process has the PID. One whose exit was seen may have been reaped, which is seen later.
func (p *match) free(x *run, pid uint8) bool {
	for t := uint8(1); t < p.s.w.born; t++ {
		is := &p.s.tasks[t]
		if is.pid != pid || !is.hashed() {
			continue
		}
		if is.stage != zombie {
			return false
		}
		x.take(Move{reap, t, t})
	}
	return true
}
