//go:build linux

package kerneltest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
)

// SetAgents replaces the agents that Become compares comms with.
func (k *Kernel) SetAgents(agents []tracer.Agent) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["SetAgents"]; err != nil {
		return err
	}
	k.looks.agents = slices.Clone(agents)
	return nil
}

// SetJoins chooses whether PutIn and Begin open sessions.
func (k *Kernel) SetJoins(commands, mains bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks.joins, k.looks.mains = commands, mains
}

// PutIn is an exec of a process that was put into a container; it returns the session that it
// opened, 0 if none.
func (k *Kernel) PutIn(pid uint32, comm string) tracer.SessionID {
	return k.join(pid, comm, func() bool { return k.looks.joins })
}

// Begin is the exec of a container's main process, likewise.
func (k *Kernel) Begin(pid uint32, comm string) tracer.SessionID {
	return k.join(pid, comm, func() bool { return k.looks.mains })
}

// SetClients replaces the clients whose interruption ends a session.
func (k *Kernel) SetClients(all map[tracer.Identity]tracer.SessionID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["SetClients"]; err != nil {
		return err
	}
	k.looks.clients = maps.Clone(all)
	return nil
}

// Clients returns those that were set last.
func (k *Kernel) Clients() map[tracer.Identity]tracer.SessionID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.looks.clients)
}

func (k *Kernel) join(pid uint32, comm string, looked func() bool) tracer.SessionID {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.rename(pid, comm)
	if !looked() || p.Session != 0 || p.Flags&tracer.FlagProtected != 0 {
		return 0
	}
	id, s := k.open(p)
	s.Name, s.UID, s.Agent, s.Joined = comm, p.UID, true, true
	k.keep[id] = true
	k.emit(tracer.Event{Type: tracer.EventSession, Session: id, State: tracer.StateActive})
	return id
}

// Agents returns those that were set last.
func (k *Kernel) Agents() []tracer.Agent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.looks.agents)
}

// Become is an exec with a comm that may be an agent's; it returns the session that it
// opened, 0 if none.
func (k *Kernel) Become(pid uint32, comm string) tracer.SessionID {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.rename(pid, comm)
	id := k.openAgent(p)
	if id != 0 {
		k.emit(tracer.Event{Type: tracer.EventExec, Process: p.Identity, Session: id, Comm: p.Comm, UID: p.UID})
	}
	return id
}

// SetHalt replaces the halt, and ends sessions with one pass.
func (k *Kernel) SetHalt(h tracer.Halt, ends []tracer.SessionID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["SetHalt"]; err != nil {
		return err
	}
	k.looks.halt = h
	for _, id := range ends {
		if s := k.sessions[id]; s != nil {
			k.end(s, tracer.CauseHalt, 0)
		}
	}
	if len(ends) > 0 {
		k.pass(true)
	}
	return nil
}

// Halted returns the halt that is in force.
func (k *Kernel) Halted() tracer.Halt {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looks.halt
}

// BecomeUnseen is an exec that the exec hook missed.
func (k *Kernel) BecomeUnseen(pid uint32, comm string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rename(pid, comm).unseen = true
	k.misses["exec_event"]++
}

// OpenMissedAgents opens sessions for the agents that BecomeUnseen made.
func (k *Kernel) OpenMissedAgents() (n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["OpenMissedAgents"]; err != nil {
		return 0, err
	}
	for _, p := range k.tasks() {
		if p.unseen && k.openAgent(p) != 0 {
			n++
		}
		p.unseen = false
	}
	return n, nil
}

func (k *Kernel) rename(pid uint32, comm string) *Proc {
	p := k.procs[pid]
	p.Comm = tracer.Comm{}
	copy(p.Comm[:15], comm)
	return p
}

func (k *Kernel) openAgent(p *Proc) tracer.SessionID {
	i := slices.IndexFunc(k.looks.agents, func(a tracer.Agent) bool { return a.Comm == p.Comm.String() })
	if i < 0 || p.Flags&tracer.FlagProtected != 0 {
		return 0
	}
	a := k.looks.agents[i]
	if a.Exact && !p.unseen && k.looks.halt.Bars(p.Session != 0) {
		k.counts["agents_halted"]++
		k.signal(p, tracer.FlagKilled)
		k.obey(p)
		return 0
	}
	if p.Session != 0 && (!a.Nests || p.Flags&tracer.FlagRoot != 0) {
		return 0
	}
	id, s := k.open(p)
	s.Name, s.UID, s.Agent, s.Rule = a.Comm, p.UID, true, a.Rule
	k.keep[id] = a.KeepOnRootExit
	k.emit(tracer.Event{Type: tracer.EventSession, Session: id, State: tracer.StateActive})
	return id
}

// SetTerms changes the terms of a session.
func (k *Kernel) SetTerms(id tracer.SessionID, spec tracer.SessionSpec) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["SetTerms"]; err != nil {
		return err
	}
	s := k.sessions[id]
	switch {
	case s == nil:
		return fmt.Errorf("set terms of session %v: %w", id, tracer.ErrNotFound)
	case s.State != tracer.StateActive:
		return fmt.Errorf("set terms of session %v: %w", id, tracer.ErrBusy)
	}
	s.Name, s.Rule, s.Grace, s.MaxProcesses = spec.Name, spec.Rule, spec.Grace, spec.MaxProcesses
	s.MaxLifetime, s.MaxRSS, s.Idle = spec.MaxLifetime, spec.MaxRSS, spec.Idle
	s.For, s.Weak, s.Guard = spec.For, spec.Weak, spec.Guard
	s.Expires = 0
	if s.MaxLifetime > 0 {
		s.Expires = s.Created + uint64(s.MaxLifetime)
	}
	k.keep[id] = spec.KeepOnRootExit
	k.due()
	return nil
}

// Adopt enters every outsider whose parent is in the session, except those of other uids; uid 0: of any.
func (k *Kernel) Adopt(id tracer.SessionID, uid uint32) (n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for again := true; again; {
		again = false
		for _, p := range k.tasks() {
			up := k.procs[p.Parent.PID]
			if p.Session == 0 && !p.Dead && up != nil && up.Identity == p.Parent && up.Session == id && !k.condemned(id) &&
				p.Flags&tracer.FlagProtected == 0 && (uid == 0 || p.UID == uid) {
				p.Source = tracer.SourceParent
				k.enter(p, id, tracer.EvidenceAdopted, up.Identity)
				n, again = n+1, true
			}
		}
	}
	return n, k.fail["Adopt"]
}

// Enter makes an outsider a member.
func (k *Kernel) Enter(id tracer.SessionID, who, creator tracer.Identity, source tracer.Source) error {
	return k.raise("Enter", 0, id, who, creator, source)
}

// Raise moves a member of from into id, on better evidence.
func (k *Kernel) Raise(from, id tracer.SessionID, who, creator tracer.Identity, source tracer.Source) error {
	return k.raise("Raise", from, id, who, creator, source)
}

func (k *Kernel) raise(method string, from, id tracer.SessionID, who, creator tracer.Identity, source tracer.Source) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.procs[who.PID]
	switch {
	case k.fail[method] != nil:
		return k.fail[method]
	case p == nil || p.Identity != who || p.Dead || k.sessions[id] == nil:
		return fmt.Errorf("enter %v: %w", who, tracer.ErrNotFound)
	case k.condemned(id):
		return fmt.Errorf("enter %v: %w", who, tracer.ErrBusy)
	case p.Session != from || p.Flags&tracer.FlagProtected != 0:
		return fmt.Errorf("enter %v: %w", who, tracer.ErrProtected)
	}
	k.chain(from, func(s *tracer.SessionInfo) { s.Live-- })
	p.Source = source
	k.enter(p, id, tracer.EvidenceAdopted, creator)
	return nil
}

// Follow moves members of from whose creator is in id.
func (k *Kernel) Follow(from, id tracer.SessionID) (n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for again := true; again; {
		again = false
		for _, p := range k.tasks() {
			c := k.procs[p.Creator.PID]
			if p.Session == from && !p.Dead && c != nil && c.Identity == p.Creator && c.Session == id && !k.condemned(id) {
				k.move(p, id)
				n, again = n+1, true
			}
		}
	}
	return n, k.fail["Follow"]
}

// Move moves one member.
func (k *Kernel) Move(who tracer.Identity, from, to tracer.SessionID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, s := k.procs[who.PID], k.sessions[from]
	switch {
	case p == nil || p.Identity != who || p.Session != from || s == nil:
		return fmt.Errorf("move %v: %w", who, tracer.ErrNotFound)
	case k.condemned(to):
		return fmt.Errorf("move %v: %w", who, tracer.ErrBusy)
	case s.Root == who:
		return fmt.Errorf("move %v: %w", who, tracer.ErrRoot)
	}
	k.move(p, to)
	return k.fail["Move"]
}

// Dissolve releases all members. What is nested in the session stays nested in it.
func (k *Kernel) Dissolve(id tracer.SessionID) (n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[id]
	switch {
	case s == nil:
		return 0, fmt.Errorf("dissolve session %v: %w", id, tracer.ErrNotFound)
	case s.State == tracer.StateDissolved:
		return 0, nil
	case s.State != tracer.StateActive:
		return 0, fmt.Errorf("dissolve session %v: %w", id, tracer.ErrBusy)
	}
	s.State, s.Cause = tracer.StateDissolved, tracer.CauseReleased
	around := k.home(s.Parent)
	for _, p := range k.tasks() {
		if p.Session == id && !p.Dead {
			k.move(p, around)
			if o := k.sessions[around]; o == nil || o.Root != p.Identity {
				p.Flags &^= tracer.FlagRoot
			}
			n++
		}
	}
	k.emit(tracer.Event{Type: tracer.EventSession, Session: id, State: s.State, Cause: s.Cause})
	return n, k.fail["Dissolve"]
}

// home returns a session, or the innermost session around it that was not dissolved.
func (k *Kernel) home(id tracer.SessionID) tracer.SessionID {
	for s := k.sessions[id]; s != nil; s = k.sessions[s.Parent] {
		if s.State != tracer.StateDissolved {
			return s.ID
		}
	}
	return 0
}

func (k *Kernel) move(p *Proc, to tracer.SessionID) {
	k.chain(p.Session, func(s *tracer.SessionInfo) { s.Live-- })
	p.Session = to
	k.chain(to, func(s *tracer.SessionInfo) { s.Live++; s.Peak = max(s.Peak, uint64(s.Live)) })
}

// id is the ID of the record in the last slot that was taken.
func (k *Kernel) id() tracer.SessionID {
	return tracer.SessionID((k.nextSlot*2654435761%(1<<30))<<32 | k.nextSlot)
}

// open creates a session with p as its root, nested in the session that p is in.
func (k *Kernel) open(p *Proc) (tracer.SessionID, *tracer.SessionInfo) {
	k.nextSlot++
	id := k.id()
	s := &tracer.SessionInfo{ID: id, Parent: p.Session, Root: p.Identity, State: tracer.StateActive, Created: uint64(k.now)}
	k.sessions[id] = s
	if around := k.sessions[p.Session]; around != nil {
		around.Nested++
	}
	k.chain(p.Session, func(s *tracer.SessionInfo) { s.Live-- })
	p.Flags |= tracer.FlagRoot
	had, since := p.Entered, p.Since
	k.enter(p, id, tracer.EvidenceRoot, p.Parent)
	if had { // the entry is another session's from now on
		p.Since = since
	}
	return id, s
}

// Unprotect takes the protection away.
func (k *Kernel) Unprotect(id tracer.Identity) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.procs[id.PID]
	if p == nil || p.Identity != id {
		return fmt.Errorf("unprotect %v: %w", id, tracer.ErrNotFound)
	}
	p.Flags &^= tracer.FlagProtected
	return k.fail["Unprotect"]
}
