//go:build linux

package kerneltest

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// due is the pass of the hooks. Below level 4 it sends no signal, and at level 2 nothing checks before the
// daemon's next pass.
func (k *Kernel) due() {
	if k.Feature.Level > 2 {
		k.pass(k.Feature.Level == 4)
	}
}

// pass does what the sessions' states demand of each member, as sentence.h does.
func (k *Kernel) pass(signals bool) (sent uint32) {
	defer k.stop()
	var obey []*Proc
	for _, p := range k.tasks() {
		if p.Dead || p.Session == 0 || p.Flags&tracer.FlagProtected != 0 {
			continue
		}
		if flag := k.demand(p); flag != 0 && signals && p.Flags&tracer.FlagKilled == 0 {
			sent++
			k.signal(p, flag)
			obey = append(obey, p)
		}
	}
	for _, p := range slices.Backward(obey) { // any order is possible; the machine has this one
		k.obey(p)
	}
	return sent
}

// demand is demand() of judge.h: a session without a member is not met, so its end begins when it is closed.
func (k *Kernel) demand(p *Proc) (flag tracer.EntryFlags) {
	for s := k.sessions[p.Session]; s != nil; s = k.sessions[s.Parent] {
		k.judge(s)
		switch {
		case s.State.Kills():
			return tracer.FlagKilled
		case s.State == tracer.StateEnding && p.Flags&tracer.FlagTermed == 0 && p.Since <= s.EndedAt:
			flag = tracer.FlagTermed
		}
	}
	return flag
}

// judge brings the state of a session up to date.
func (k *Kernel) judge(s *tracer.SessionInfo) {
	switch {
	case s.State == tracer.StateEnding:
		if s.Deadline != 0 && time.Duration(s.Deadline) <= k.now {
			k.enterState(s, tracer.StateCondemned)
		}
	case s.State != tracer.StateActive:
	case s.Expires != 0 && s.Expires <= uint64(k.now):
		k.end(s, tracer.CauseMaxLifetime, s.Grace)
	case !s.KeepOnRootExit && k.dead(s.Root):
		k.end(s, tracer.CauseRootExit, s.Grace)
	case !s.Owner.IsZero() && k.dead(s.Owner), k.left[s.ID]:
		k.end(s, tracer.CauseOwnerExit, s.Grace)
	}
}

// end begins an end, shortens its grace or condemns the session.
func (k *Kernel) end(s *tracer.SessionInfo, cause tracer.Cause, grace time.Duration) {
	if k.paused(s.ID) {
		grace = 0
	}
	if s.State > tracer.StateCondemned {
		return
	}
	if s.State == tracer.StateActive {
		s.Cause, s.EndedAt = cause, uint64(k.now)
	}
	if grace == 0 {
		s.Deadline = 0
		k.enterState(s, tracer.StateCondemned)
		return
	}
	if d := uint64(k.now + grace); s.State <= tracer.StateEnding && (s.Deadline == 0 || d < s.Deadline) {
		s.Deadline = d
	}
	k.enterState(s, tracer.StateEnding)
}

// enterState reports a new state. States only grow.
func (k *Kernel) enterState(s *tracer.SessionInfo, state tracer.State) {
	if state > s.State {
		s.State = state
		k.emit(tracer.Event{Type: tracer.EventSession, Session: s.ID, State: s.State, Cause: s.Cause})
	}
}

func (k *Kernel) signal(p *Proc, flag tracer.EntryFlags) {
	k.signals = append(k.signals, Signal{p.Identity, flag == tracer.FlagKilled})
	p.Flags |= flag
}

// obey makes a process exit that a signal was sent to, unless it does not.
func (k *Kernel) obey(p *Proc) {
	switch {
	case p.Stubborn:
	case p.Flags&tracer.FlagKilled != 0:
		k.exit(p, 9)
	case !p.IgnoreTerm:
		k.exit(p, 15)
	}
}

// Reconcile moves members of a session without a record to their creator's, or to none. It
// enters the processes that Add made below a member, as if their birth had been missed.
func (k *Kernel) Reconcile() (added, removed int, err error) {
	defer k.lock()()
	k.reconciled++
	if err := k.fail["Reconcile"]; err != nil {
		return 0, 0, err
	}
	added = k.walk(func(p *Proc) bool {
		if p.Session == 0 || p.Dead || k.sessions[p.Session] != nil {
			return false
		}
		home := tracer.SessionID(0)
		if c := k.of(p.Creator); c != nil {
			home = k.home(c.Session)
		}
		k.move(p, home)
		k.counts["no_session"]++
		return true
	})
	return added + k.walk(func(p *Proc) bool {
		parent := k.of(p.Parent)
		if p.Entered || p.Dead || parent == nil || p.Start <= parent.Since {
			return false
		}
		at := k.sessions[parent.Session]
		for at != nil && at.Created >= p.Start && !at.Kept {
			at = k.sessions[at.Parent]
		}
		if at == nil {
			return false
		}
		k.enter(p, at.ID, tracer.EvidenceReconciled, parent.Identity)
		p.Since = p.Start
		return true
	}), 0, nil
}

// walk visits all processes until it has changed none, and returns how many it has changed.
func (k *Kernel) walk(changes func(*Proc) bool) (n int) {
	for before := -1; n != before; {
		before = n
		for _, p := range k.tasks() {
			if changes(p) {
				n++
			}
		}
	}
	return n
}

// stop stops and continues members, as their sessions' pauses demand.
func (k *Kernel) stop() {
	for _, p := range k.tasks() {
		if p.Dead || p.Session == 0 || p.Flags&tracer.FlagProtected != 0 {
			continue
		}
		switch paused := k.paused(p.Session); {
		case paused && !p.Stopped && !p.Stubborn:
			p.Stopped, p.Flags = true, p.Flags|tracer.FlagStopped
		case !paused && p.Flags&tracer.FlagStopped != 0:
			p.Stopped, p.Flags = false, p.Flags&^tracer.FlagStopped
		}
	}
}

func (k *Kernel) paused(id tracer.SessionID) (yes bool) {
	k.chain(id, func(s *tracer.SessionInfo) { yes = yes || s.Paused != 0 })
	return yes
}

// Pause stops the members of a session. A Stubborn one does not stop.
func (k *Kernel) Pause(id tracer.SessionID) error {
	return k.on("Pause", id, func(s *tracer.SessionInfo) error {
		if s.State != tracer.StateActive {
			return tracer.ErrBusy
		}
		if s.Paused == 0 {
			s.Paused = uint64(k.now)
		}
		k.stop()
		return nil
	})
}

// Resume undoes it.
func (k *Kernel) Resume(id tracer.SessionID) error {
	return k.on("Resume", id, func(s *tracer.SessionInfo) error {
		s.Paused = 0
		k.stop()
		return nil
	})
}
