//go:build linux

package kerneltest

import (
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// SetAgents replaces the agents that Become compares comms with.
func (k *Kernel) SetAgents(agents []tracer.Agent) error {
	return k.call("SetAgents", func() error {
		k.asked.Agents = slices.Clone(agents)
		return nil
	})
}

// SetTraces does nothing: this kernel has no environments.
func (*Kernel) SetTraces(bool) {}

// SetJoins chooses whether PutIn and Begin open sessions.
func (k *Kernel) SetJoins(commands, mains bool) {
	defer k.lock()()
	k.asked.Commands, k.asked.Mains = commands, mains
}

// PutIn is an exec of a process that was put into a container; it returns the session that it
// opened, 0 if none.
func (k *Kernel) PutIn(pid uint32, comm string) tracer.SessionID {
	defer k.lock()()
	return k.join(pid, comm, k.asked.Commands)
}

// Begin is the exec of a container's main process, likewise.
func (k *Kernel) Begin(pid uint32, comm string) tracer.SessionID {
	defer k.lock()()
	return k.join(pid, comm, k.asked.Mains)
}

// SetClients replaces the clients whose interruption ends a session.
func (k *Kernel) SetClients(all map[tracer.Identity]tracer.SessionID) error {
	return k.call("SetClients", func() error {
		k.asked.Clients = maps.Clone(all)
		return nil
	})
}

func (k *Kernel) join(pid uint32, comm string, looked bool) tracer.SessionID {
	p := k.rename(pid, comm)
	if !looked || p.Session != 0 || p.Flags&tracer.FlagProtected != 0 {
		return 0
	}
	return k.open(p, tracer.SessionInfo{Name: comm, UID: p.UID, Agent: true, Joined: true, KeepOnRootExit: true})
}

// Become is an exec with a comm that may be an agent's; it returns the session that it
// opened, 0 if none.
func (k *Kernel) Become(pid uint32, comm string) tracer.SessionID {
	defer k.lock()()
	p := k.rename(pid, comm)
	id := k.openAgent(p)
	if id != 0 {
		k.emit(tracer.Event{Type: tracer.EventExec, Process: p.Identity, Session: id, Looks: p.Looks})
	}
	return id
}

// SetHalt replaces the halt, and ends sessions with one pass.
func (k *Kernel) SetHalt(h tracer.Halt, ends []tracer.SessionID) error {
	return k.call("SetHalt", func() error {
		k.asked.Halt = h
		for _, id := range ends {
			if s := k.sessions[id]; s != nil {
				k.end(s, tracer.CauseHalt, 0)
			}
		}
		if len(ends) > 0 {
			k.pass(true)
		}
		return nil
	})
}

// Halted is the halt that is in force.
func (k *Kernel) Halted() tracer.Halt { return k.Settings().Halt }

// BecomeUnseen is an exec that the exec hook missed.
func (k *Kernel) BecomeUnseen(pid uint32, comm string) {
	defer k.lock()()
	k.rename(pid, comm).unseen = true
	k.misses["exec_event"]++
}

// OpenMissedAgents opens sessions for the agents that BecomeUnseen made.
func (k *Kernel) OpenMissedAgents() (n int, err error) {
	err = k.call("OpenMissedAgents", func() error {
		for _, p := range k.tasks() {
			if p.unseen && k.openAgent(p) != 0 {
				n++
			}
			p.unseen = false
		}
		return nil
	})
	return n, err
}

func (k *Kernel) rename(pid uint32, comm string) *Proc {
	p := k.procs[pid]
	p.Comm = lineage.CommOf(comm)
	return p
}

func (k *Kernel) openAgent(p *Proc) tracer.SessionID {
	i := slices.IndexFunc(k.asked.Agents, func(a tracer.Agent) bool { return a.Comm == p.Comm.String() })
	if i < 0 || p.Flags&tracer.FlagProtected != 0 {
		return 0
	}
	a := k.asked.Agents[i]
	if a.Exact && !p.unseen && k.asked.Halt.Bars(p.Session != 0) {
		k.counts["agents_halted"]++
		k.signal(p, tracer.FlagKilled)
		k.obey(p)
		return 0
	}
	if p.Session != 0 && (!a.Nests || p.Flags&tracer.FlagRoot != 0) {
		return 0
	}
	return k.open(p, tracer.SessionInfo{
		Name: a.Comm, UID: p.UID, Agent: true, KeepOnRootExit: a.KeepOnRootExit,
	})
}

// SetTerms changes the terms of a session.
func (k *Kernel) SetTerms(id tracer.SessionID, spec tracer.SessionSpec) error {
	return k.on("SetTerms", id, func(s *tracer.SessionInfo) error {
		if s.State != tracer.StateActive {
			return tracer.ErrBusy
		}
		setTerms(s, spec)
		k.due()
		return nil
	})
}

func setTerms(s *tracer.SessionInfo, spec tracer.SessionSpec) {
	s.Name, s.Rule, s.Grace, s.MaxProcesses = spec.Name, spec.Rule, spec.Grace, spec.MaxProcesses
	s.MaxLifetime, s.MaxRSS, s.Idle = spec.MaxLifetime, spec.MaxRSS, spec.Idle
	s.For, s.Weak, s.Guard, s.Spare, s.KeepOnRootExit = spec.For, spec.Weak, spec.Protection.Guard, spec.Protection.Spare, spec.KeepOnRootExit
	s.Expires = 0
	if s.MaxLifetime > 0 {
		s.Expires = s.Created + uint64(s.MaxLifetime)
	}
}

// Adopt enters every outsider whose parent is in the session, except those of other uids; uid 0: of any.
func (k *Kernel) Adopt(id tracer.SessionID, uid uint32) (n int, err error) {
	defer k.lock()()
	n = k.walk(func(p *Proc) bool {
		up := k.of(p.Parent)
		if p.Session != 0 || p.Dead || up == nil || up.Session != id || k.condemned(id) ||
			p.Flags&tracer.FlagProtected != 0 || uid != 0 && p.UID != uid {
			return false
		}
		p.Source = tracer.SourceParent
		k.enter(p, id, tracer.EvidenceAdopted, up.Identity)
		return true
	})
	return n, k.fail["Adopt"]
}

// Enter makes an outsider, or a member of from, a member of id.
func (k *Kernel) Enter(from, id tracer.SessionID, who, creator tracer.Identity, source tracer.Source) error {
	return k.on("Enter", id, func(*tracer.SessionInfo) error {
		p := k.of(who)
		switch {
		case p == nil || p.Dead:
			return tracer.ErrNotFound
		case k.condemned(id):
			return tracer.ErrBusy
		case p.Session != from || p.Flags&tracer.FlagProtected != 0:
			return tracer.ErrProtected
		}
		p.Source = source
		k.enter(p, id, tracer.EvidenceAdopted, creator)
		return nil
	})
}

// Follow moves members of from whose creator is in id.
func (k *Kernel) Follow(from, id tracer.SessionID) (n int, err error) {
	defer k.lock()()
	n = k.walk(func(p *Proc) bool {
		c := k.of(p.Creator)
		follows := p.Session == from && !p.Dead && c != nil && c.Session == id && !k.condemned(id)
		if follows {
			k.move(p, id)
		}
		return follows
	})
	return n, k.fail["Follow"]
}

// Move moves one member.
func (k *Kernel) Move(who tracer.Identity, from, to tracer.SessionID) error {
	return k.on("Move", from, func(s *tracer.SessionInfo) error {
		p := k.of(who)
		switch {
		case p == nil || p.Session != from:
			return tracer.ErrNotFound
		case k.condemned(to):
			return tracer.ErrBusy
		case s.Root == who:
			return tracer.ErrRoot
		}
		k.move(p, to)
		return nil
	})
}

// Dissolve releases all members. What is nested in the session stays nested in it.
func (k *Kernel) Dissolve(id tracer.SessionID) (n int, err error) {
	err = k.on("Dissolve", id, func(s *tracer.SessionInfo) error {
		switch s.State {
		case tracer.StateDissolved:
			return nil
		case tracer.StateActive:
		default:
			return tracer.ErrBusy
		}
		s.Cause = tracer.CauseReleased
		k.enterState(s, tracer.StateDissolved)
		around := k.home(s.Parent)
		n = k.walk(func(p *Proc) bool {
			if p.Session != id || p.Dead {
				return false
			}
			k.move(p, around)
			if o := k.sessions[around]; o == nil || o.Root != p.Identity {
				p.Flags &^= tracer.FlagRoot
			}
			return true
		})
		return nil
	})
	return n, err
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

// id is the ID of the record in the last slot that was taken.
func (k *Kernel) id() tracer.SessionID {
	return tracer.SessionID((k.nextSlot*2654435761%(1<<30))<<32 | k.nextSlot)
}

// open creates a session with p as its root, nested in the session that p is in.
func (k *Kernel) open(p *Proc, s tracer.SessionInfo) tracer.SessionID {
	k.nextSlot++
	s.ID, s.Parent, s.Root, s.State, s.Created = k.id(), p.Session, p.Identity, tracer.StateActive, uint64(k.now)
	k.sessions[s.ID] = &s
	if around := k.sessions[p.Session]; around != nil {
		around.Nested++
	}
	p.Flags |= tracer.FlagRoot
	had, since := p.Entered, p.Since
	k.enter(p, s.ID, tracer.EvidenceRoot, p.Parent)
	if had { // the entry is another session's from now on
		p.Since = since
	}
	if s.Agent {
		k.emit(tracer.Event{Type: tracer.EventSession, Session: s.ID, State: s.State})
	}
	return s.ID
}

// Unprotect takes the protection away.
func (k *Kernel) Unprotect(id tracer.Identity) error {
	return k.call("Unprotect", func() error {
		p := k.of(id)
		if p == nil {
			return tracer.ErrNotFound
		}
		p.Flags &^= tracer.FlagProtected
		return nil
	})
}
