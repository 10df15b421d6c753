//go:build linux

package tracer_test

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
)

// model is the reference: which processes and sessions exist, and what follows from
// each step, in simple lists. It does not know how the kernel side finds that out. Its
// names are the same in each run of a sequence, unlike PIDs and session ids.
type model struct {
	clock     int
	keeper    *process // gets the orphans, outside all sessions
	processes []*process
	sessions  []*session // on record, in order of creation
	made      int
}

type process struct {
	name    string
	parent  *process
	entry   *entry // nil: none
	defiant bool   // blocks SIGTERM
	terms   int    // how often SIGTERM was sent
	dead    bool
	reaped  bool
	counted *session // of a dead process: the session that counts it as unreaped

	id      tracer.Identity
	channel int
	heard   int // how often the process reported SIGTERM
}

// entry is what the kernel side remembers of a process.
type entry struct {
	session *session // nil: none
	creator *process
	since   int
	root    bool
	owner   bool
	termed  bool
}

type session struct {
	name    string
	parent  *session
	root    *process
	owner   *process // nil: none
	terms   terms
	state   tracer.State
	endedAt int
	forks   int // -1: unknown after a take-over

	id tracer.SessionID
}

type terms struct {
	patient bool // its members have a long grace
	outlast bool // it stays active when its root exits
	limit   int  // of processes, 0: none
}

const (
	active    = tracer.StateActive
	ending    = tracer.StateEnding
	condemned = tracer.StateCondemned
	empty     = tracer.StateEmpty
	dissolved = tracer.StateDissolved
)

// agents are the names that open a session at exec.
var agents = map[string]struct {
	nests bool
	terms terms
}{
	"nests": {true, terms{}},
	"plain": {false, terms{patient: true, outlast: true}},
}

func (p *process) session() *session {
	switch {
	case p.dead:
		return p.counted
	case p.entry == nil:
		return nil
	}
	return p.entry.session
}

// within reports whether the session is s, or nested in it.
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

// counts counts the live members of a session and its unreaped dead.
func (m *model) counts(s *session) (live, unreaped int) {
	for _, p := range m.processes {
		switch {
		case p.reaped || !p.session().within(s):
		case p.dead:
			unreaped++
		default:
			live++
		}
	}
	return live, unreaped
}

// room reports whether the process may have another child within all limits.
func (m *model) room(p *process) bool {
	for s := p.session(); s != nil; s = s.parent {
		if live, unreaped := m.counts(s); s.terms.limit > 0 && live+unreaped >= s.terms.limit {
			return false
		}
	}
	return true
}

func (m *model) limited(p *process) bool {
	for s := p.session(); s != nil; s = s.parent {
		if s.terms.limit > 0 {
			return true
		}
	}
	return false
}

func (m *model) nested(s *session) bool {
	return slices.ContainsFunc(m.sessions, func(x *session) bool { return x.parent == s })
}

func (m *model) fork(parent *process) *process {
	m.clock++
	p := &process{name: fmt.Sprint("p", len(m.processes)), parent: parent, defiant: parent.defiant}
	m.processes = append(m.processes, p)
	if s := parent.session(); s != nil {
		p.entry = &entry{session: s, creator: parent, since: m.clock}
		for ; s != nil; s = s.parent {
			if s.forks >= 0 {
				s.forks++
			}
		}
	}
	return p
}

// exec returns the session that it opens, if any.
func (m *model) exec(p *process, name string) *session {
	m.clock++
	a, named := agents[name]
	if !named {
		return nil
	}
	if e := p.entry; e != nil && e.session != nil && (!a.nests || e.root) {
		return nil
	}
	if p.session().depth() >= tracer.MaxDepth {
		return nil
	}
	return m.create(p, nil, a.terms)
}

// create makes a session for a process, nested in the session that it is in.
func (m *model) create(root, owner *process, t terms) *session {
	m.clock++
	s := &session{name: fmt.Sprint("s", m.made), parent: root.session(), root: root, owner: owner, terms: t, state: active}
	m.made++
	m.sessions = append(m.sessions, s)
	if owner != nil {
		m.enter(owner, nil).owner = true
	}
	e := m.enter(root, root.parent)
	e.session, e.root = s, true
	return s
}

func (m *model) enter(p, creator *process) *entry {
	if p.entry == nil {
		p.entry = &entry{creator: creator, since: m.clock}
	}
	return p.entry
}

// adopt enters all descendants of the session's members that are in none.
func (m *model) adopt(s *session) {
	for again := true; again; {
		again = false
		for _, p := range m.processes {
			if p.dead || p.session() != nil || p.parent.dead || p.parent.session() != s {
				continue
			}
			e := m.enter(p, nil)
			e.session, e.creator, e.since = s, p.parent, m.clock
			again = true
		}
	}
}

// follow moves the members of from whose creator is in to, and so on down.
func (m *model) follow(from, to *session) {
	for again := true; again; {
		again = false
		for _, p := range m.processes {
			if p.dead || p.entry == nil || p.entry.session != from {
				continue
			}
			if c := p.entry.creator; c != nil && !c.dead && c.session() == to {
				p.move(to)
				again = true
			}
		}
	}
}

// keep hands a member over to a session that is nested nowhere.
func (m *model) keep(p *process) *session {
	from := p.entry.session
	p.move(nil)
	s := m.create(p, nil, terms{outlast: true})
	m.follow(from, s)
	return s
}

// move moves a member to another session. Unless one is nested in the other, a SIGTERM
// of the first does not count for the second.
func (p *process) move(to *session) {
	e := p.entry
	if to == nil || !e.session.within(to) && !to.within(e.session) {
		e.termed = false
	}
	e.session = to
}

// dissolve moves the direct members to the innermost session around it that was not dissolved.
func (m *model) dissolve(s *session) {
	s.state, s.terms.limit = dissolved, 0
	to := s.home()
	for _, p := range m.processes {
		if !p.dead && p.entry != nil && p.entry.session == s {
			p.move(to)
			p.entry.root = to != nil && to.root == p
		}
	}
}

// releasable reports whether the session is over, with no live member and no nested record.
func (m *model) releasable(s *session) bool {
	live, _ := m.counts(s)
	return live == 0 && !m.nested(s) && (s.state == empty || s.state == dissolved)
}

func (m *model) release(s *session) {
	for _, p := range m.processes {
		if p.dead && p.counted == s {
			p.counted = s.parent
		}
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(x *session) bool { return x == s })
}

func (m *model) end(s *session, patient bool) {
	m.clock++
	switch {
	case s.state == active:
		m.begin(s, patient)
	case s.state == ending && !patient:
		s.state = condemned
	}
	m.carryOut()
}

func (m *model) begin(s *session, patient bool) {
	s.state, s.endedAt = condemned, m.clock
	if patient {
		s.state = ending
	}
}

func (m *model) die(p *process) {
	m.clock++
	p.counted = p.session()
	p.dead = true
	for _, c := range m.processes {
		if c.parent == p {
			c.parent = m.keeper
		}
	}
}

func (m *model) reap(p *process) { p.reaped = true }

// takeOver leaves only the entries of members and owners, because only they are carried over.
func (m *model) takeOver() {
	for _, p := range m.processes {
		if !p.dead && p.entry != nil && p.entry.session == nil && !p.entry.owner {
			p.entry = nil
		}
	}
}

// carryOut applies what dead roots, dead owners and states demand, until nothing changes.
func (m *model) carryOut() {
	for again := true; again; {
		again = false
		for _, p := range m.processes {
			for s := p.session(); s != nil && !p.dead; s = s.parent {
				again = m.judge(s) || again
				again = m.demand(p, s) || again
			}
		}
	}
	for _, s := range m.sessions {
		if live, _ := m.counts(s); live == 0 && s.state != dissolved {
			s.state = empty
		}
	}
}

func (m *model) judge(s *session) bool {
	if s.state != active || (s.terms.outlast || !s.root.dead) && (s.owner == nil || !s.owner.dead) {
		return false
	}
	m.begin(s, s.terms.patient)
	return true
}

func (m *model) demand(p *process, s *session) bool {
	switch {
	case s.state == condemned:
		m.die(p)
	case s.state == ending && !p.entry.termed && p.entry.since <= s.endedAt:
		p.entry.termed = true
		p.terms++
		if !p.defiant {
			m.die(p)
		}
	default:
		return false
	}
	return true
}
