//go:build linux

package tracer_test

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/internal/protocol"
	"github.com/lineage-ebpf/lineage/tracer"
	"pgregory.net/rapid"
)

// oracle is the reference: the machine of internal/protocol, run to quiet after each step. Its names are the
// same in each run of a sequence, unlike PIDs and session ids.
type oracle struct {
	host      *protocol.Host
	keeper    *process // gets the orphans, outside all sessions
	processes []*process
	sessions  []*session // on record, in order of creation
	opened    int        // by the machine
	made      int        // that have a name
}

const (
	mostProcesses = 60 // in all of a sequence
	mostSessions  = 60
)

func newOracle(t *rapid.T, keeper *process) *oracle {
	return &oracle{host: protocol.NewHost(mostProcesses, mostSessions, tracer.MaxDepth), keeper: keeper}
}

// process is one of the machine: number is its number there, and the keeper's is 0.
type process struct {
	name    string
	number  int
	parent  *process
	in      *session // nil: none; of a dead process, the one that counts it as unreaped
	terms   int      // how often SIGTERM was sent
	dead    bool
	reaped  bool
	id      tracer.Identity
	channel int
	heard   int // how often the process reported SIGTERM
}

// session is one of the machine.
type session struct {
	name           string
	number         int
	parent         *session
	root           *process
	limit          int // of processes, 0: none
	state          tracer.State
	live, unreaped int
	nested         int
	forks          int
	anyForks       bool // after a take-over during which it forked
	id             tracer.SessionID
}

type terms struct {
	patient bool // its members have a long grace
	outlast bool // it stays active when its root exits
	limit   int  // of processes, 0: none
}

const (
	active    = tracer.StateActive
	empty     = tracer.StateEmpty
	dissolved = tracer.StateDissolved
)

// agents are the names that open a session at exec, each with what the machine calls that exec.
var agents = map[string]struct {
	exec  string
	nests bool
	terms terms
}{
	"nests": {"exec", true, terms{}},
	"plain": {"exec plain", false, terms{patient: true, outlast: true}},
}

// act takes a step of the machine, and reads what follows from it.
func (w *world) act(name string, number int) {
	w.t.Helper()
	bad, ok := w.host.Do(name, number)
	if bad != "" || !ok {
		w.t.Fatalf("the machine cannot %s %d: %s", name, number, bad)
	}
	w.learn()
}

// settled has the machine settle what agree settles.
func (w *world) settled() {
	w.t.Helper()
	for _, s := range slices.Clone(w.sessions) {
		if s.state != dissolved {
			w.act("settle", s.number)
		}
	}
}

// learn brings all processes and sessions up to date with the machine.
func (o *oracle) learn() {
	processes, sessions := o.host.Processes(), o.host.Sessions()
	for n := o.opened; n < len(sessions); n++ {
		if s := sessions[n]; s.State != 0 {
			o.sessions = append(o.sessions, &session{name: fmt.Sprint("s", o.made), number: n + 1})
			o.made++
		}
	}
	o.opened = len(sessions)
	o.sessions = slices.DeleteFunc(o.sessions, func(s *session) bool { return sessions[s.number-1].State == 0 })
	for _, s := range o.sessions {
		is := sessions[s.number-1]
		s.parent, s.root, s.state = o.numbered(is.Parent), o.processes[is.Root-1], tracer.State(is.State)
		s.live, s.unreaped, s.nested, s.forks = is.Live, is.Unreaped, is.Nested, is.Forks
	}
	for i, p := range o.processes {
		is := processes[i]
		p.dead, p.reaped = !is.Alive(), is.Stage == "gone"
		p.in, p.terms, p.parent = o.numbered(is.Session), is.Terms, o.keeper
		if is.Parent > 0 {
			p.parent = o.processes[is.Parent-1]
		}
	}
}

// numbered is the session with that number in the machine; nil: 0.
func (o *oracle) numbered(n int) *session {
	i := slices.IndexFunc(o.sessions, func(s *session) bool { return s.number == n })
	if i < 0 {
		return nil
	}
	return o.sessions[i]
}

// fork is the machine's; an outsider's child needs no program.
func (w *world) fork(parent *process) *process {
	w.t.Helper()
	p := &process{name: fmt.Sprint("p", len(w.processes)), number: len(w.processes) + 1}
	w.processes = append(w.processes, p)
	if parent == w.keeper {
		w.act("outsider", 0)
	} else {
		w.act("fork", parent.number)
	}
	return p
}

// exec returns the session that it opens, if any.
func (w *world) exec(p *process, name string) *session {
	w.t.Helper()
	exec := "exec other"
	if a, named := agents[name]; named {
		exec = a.exec
	}
	before := w.made
	w.act(exec, p.number)
	return w.last(before)
}

// last is the session that was opened since there were that many.
func (w *world) last(before int) *session {
	if w.made == before {
		return nil
	}
	return w.sessions[len(w.sessions)-1]
}

func (x *session) within(s *session) bool {
	for ; x != nil; x = x.parent {
		if x == s {
			return true
		}
	}
	return false
}

// home is the session, or the innermost session around it that was not dissolved.
func (x *session) home() *session {
	for x != nil && x.state == dissolved {
		x = x.parent
	}
	return x
}

func (x *session) depth() (n int) {
	for ; x != nil; x = x.parent {
		n++
	}
	return n
}

// room reports whether the process may have another child within all limits.
func (p *process) room() bool {
	for s := p.in; s != nil; s = s.parent {
		if s.limit > 0 && s.live+s.unreaped >= s.limit {
			return false
		}
	}
	return true
}

func (p *process) limited() bool {
	for s := p.in; s != nil; s = s.parent {
		if s.limit > 0 {
			return true
		}
	}
	return false
}

// releasable reports whether the session is over, with no live member and no nested record.
func (x *session) releasable() bool {
	return x.live == 0 && x.nested == 0 && (x.state == empty || x.state == dissolved)
}
