package protocol

import (
	"bytes"
	"slices"
)

// Host is the machine at level 4, run to quiet after each request: the reference for what has no steps, as a kernel that
// is made for tests.
type Host struct {
	m     Config
	s, to *State
}

// NewHost is a host with init, and room for that many processes and sessions, nested up to depth, 0: any.
func NewHost(processes, sessions, depth int) *Host {
	h := &Host{m: Config{
		Level: 4, Second: true, Tasks: processes, PIDs: processes, Sessions: sessions, Entries: processes, Depth: depth, Agents: true,
	}}
	h.s, h.to = h.m.Begin(), h.m.newState()
	return h
}

// Process is a task. Members and sessions are numbers, from 1 in order of their birth; 0: none.
type Process struct {
	Stage           string
	PID, Session    int // of a dead process, the session that counts it as unreaped
	Parent          int // 0: init
	Protected, Root bool
	Signalled       bool
	Terms           int // how often it got a SIGTERM that did not end it
}

// Alive reports whether it has not begun to exit.
func (p Process) Alive() bool { return p.Stage == running.String() || p.Stage == listed.String() }

// Session is a session's record. State is as in bpf/lineage.h, 0 without a record.
type Session struct {
	State, Parent, Root          int
	Live, Dying, Unreaped, Forks int
	Nested                       int
}

// Do takes an action, named as in counterexamples, of a process, a session or a creator, and returns what it broke. Of
// "missed fork" no program runs. False: it cannot be taken now.
func (h *Host) Do(name string, arg int) (bad string, ok bool) {
	missed := name == "missed fork"
	if missed {
		name = fork.String()
	}
	v := Move{arg: uint8(arg)}
	for v.action = range actions {
		if v.action.String() == name {
			break
		}
	}
	switch v.action {
	case fork, outsider:
		if v.cpu, v.arg = uint8(arg), h.free(); v.arg == 0 || int(h.s.w.born) > h.m.Tasks {
			return "", false
		}
	}
	x := run{m: &h.m, s: h.s}
	if !x.take(v) {
		return x.bad, false
	}
	if missed {
		h.s.must[h.s.w.born-1] = 0 // nothing is promised of it
	}
	for missed && h.s.cpus[arg].at != idle {
		x.take(Move{skip, uint8(arg), 0})
	}
	return h.quiet(x.bad), true
}

// Terms are those of a session. Owner is a process whose exit ends it, too, 0: none.
type Terms struct {
	Outlasts, Patient bool
	Owner             int
}

// Create opens a session over a process. Its number is that of the last one in Sessions.
func (h *Host) Create(root int, t Terms) (bad string) {
	x := run{m: &h.m, s: h.s}
	x.start(daemon, idle, h.s.w.ours, 0)
	flags := uint8(0)
	if t.Outlasts {
		flags |= sessionOutlasts
	}
	if t.Patient {
		flags |= sessionPatient
	}
	x.open(uint8(root), flags, idle)
	x.c.owner = uint8(t.Owner)
	return h.quiet("")
}

// free is the lowest PID that is free.
func (h *Host) free() uint8 {
	for pid := uint8(1); pid <= uint8(h.m.PIDs); pid++ {
		if !slices.ContainsFunc(h.s.tasks[1:h.s.w.born],
			func(t task) bool { return t.hashed() && t.pid == pid }) {
			return pid
		}
	}
	return 0
}

// quiet continues until no CPU, and no daemon, has anything left to do.
func (h *Host) quiet(bad string) string {
	for moved := true; moved && bad == ""; {
		if moved, bad = h.step(); bad == "" {
			bad = h.m.always(h.s)
		}
	}
	if bad == "" {
		bad = h.m.quiet(h.s)
	}
	return bad
}

// step takes a step of a CPU, or if all are idle another move that happens in the end. False: that changes nothing.
func (h *Host) step() (moved bool, bad string) {
	x := run{m: &h.m, s: h.to}
	for i := range h.s.cpus {
		if h.s.cpus[i].at == idle {
			continue
		}
		copy(h.to.mem, h.s.mem)
		if x.take(Move{step, uint8(i), 0}); !bytes.Equal(h.to.mem, h.s.mem) {
			h.s, h.to = h.to, h.s
			return true, x.bad
		}
	}
	found := Move{}
	h.m.next(h.s, h.to, func(v Move, _ string) {
		if v.fair() && v.action != expire && !bytes.Equal(h.to.mem, h.s.mem) {
			found = v
		}
	})
	if found == (Move{}) {
		return false, ""
	}
	x.s = h.s
	x.take(found)
	return true, x.bad
}

// Processes are all that were born, without init.
func (h *Host) Processes() (all []Process) {
	k := &h.s.sides[h.s.w.ours]
	for t := uint8(1); t < h.s.w.born; t++ {
		p := &h.s.tasks[t]
		out := Process{Stage: p.stage.String(), PID: int(p.pid), Parent: int(h.s.parent(t)),
			Signalled: p.killed, Terms: int(p.terms)}
		if i := h.s.entered(k, t); i != none {
			e := &k.entries[i]
			out.Session, out.Protected, out.Root = int(e.session), e.flags&flagProtected != 0, e.flags&flagRoot != 0
		} else if i := h.s.dead(k, t); i != none {
			out.Session = int(k.entries[i].session)
		}
		all = append(all, out)
	}
	return all
}

// Sessions are all that were opened, and some that could not be.
func (h *Host) Sessions() (all []Session) {
	for id := uint8(1); id <= h.s.w.opened; id++ {
		p := &h.s.sides[h.s.w.ours].sessions[id]
		out := Session{}
		if p.present {
			out = Session{
				int(p.state), int(p.parent), int(p.root), int(p.live), int(p.dying), int(p.held - p.live), int(p.forks), int(p.nested),
			}
		}
		all = append(all, out)
	}
	return all
}
