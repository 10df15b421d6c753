//go:build linux

package kerneltest

import (
	"maps"
	"os"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// The methods of *tracer.Tracer.

// Features returns Feature, which a test changes in Edit.
func (k *Kernel) Features() tracer.Features { defer k.lock()(); return k.Feature }

// Read returns the oldest event, ErrFlushed after the last one once Flush was called,
// and os.ErrClosed after CloseRead.
func (k *Kernel) Read(ev *tracer.Event) error {
	defer k.lock()()
	for len(k.events) == 0 && !k.flushed && !k.closed {
		k.waiting = true
		k.cond.Broadcast()
		k.cond.Wait()
	}
	k.waiting = false
	if k.closed {
		return os.ErrClosed
	}
	if len(k.events) == 0 {
		k.flushed = false
		return tracer.ErrFlushed
	}
	*ev = k.events[0]
	k.events = k.events[1:]
	return nil
}

// Flush wakes Read.
func (k *Kernel) Flush() error {
	defer k.lock()()
	k.flushed = true
	k.cond.Broadcast()
	return nil
}

// Close does not end the kernel: it only wakes Read.
func (k *Kernel) Close() error { return k.CloseRead() }

// CloseRead wakes Read. Reopen lets it read again.
func (k *Kernel) CloseRead() error {
	defer k.lock()()
	k.closed = true
	k.cond.Broadcast()
	return nil
}

// Reopen reverts CloseRead, as for a new daemon.
func (k *Kernel) Reopen() {
	defer k.lock()()
	k.closed = false
}

// Snapshot calls each in order of PID.
func (k *Kernel) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	var all []tracer.Process
	err := k.call("Snapshot", func() error {
		for _, p := range k.in(id) {
			all = append(all, p.Process)
			all[len(all)-1].Stops = p.Stopped
		}
		return nil
	})
	slices.SortFunc(all, func(a, b tracer.Process) int { return int(a.PID) - int(b.PID) })
	for i := 0; i < len(all) && err == nil; i++ {
		err = each(&all[i])
	}
	return err
}

// Lookup returns the entry of a live process.
func (k *Kernel) Lookup(pid uint32) (e tracer.Entry, err error) {
	err = k.call("Lookup", func() error {
		p := k.procs[pid]
		if p == nil || !p.Entered || p.Dead {
			return tracer.ErrNotFound
		}
		e = tracer.Entry{Identity: p.Identity, Session: p.Session, Since: p.Since, Creator: p.Creator,
			Call: p.Call, Evidence: p.Evidence, Flags: p.Flags}
		return nil
	})
	return e, err
}

// Identify returns the identity of any process, zombies too.
func (k *Kernel) Identify(pid uint32) (id tracer.Identity, err error) {
	err = k.call("Identify", func() error {
		p := k.procs[pid]
		if p == nil {
			return tracer.ErrNotFound
		}
		id = p.Identity
		return nil
	})
	return id, err
}

// Sessions are the Records.
func (k *Kernel) Sessions() ([]tracer.SessionInfo, error) {
	return k.Records(), k.call("Sessions", func() error { return nil })
}

// Session returns one record.
func (k *Kernel) Session(id tracer.SessionID) (info tracer.SessionInfo, err error) {
	err = k.on("Session", id, func(s *tracer.SessionInfo) error {
		info = k.info(s)
		return nil
	})
	return info, err
}

// info returns a record as the tracer reports it: dissolved sessions around it are left out.
func (k *Kernel) info(s *tracer.SessionInfo) tracer.SessionInfo {
	out := *s
	out.Parent = k.home(s.Parent)
	return out
}

// Create opens a session over a live process.
func (k *Kernel) Create(spec tracer.SessionSpec) (id tracer.SessionID, err error) {
	err = k.call("Create", func() error {
		p := k.procs[spec.Root.PID]
		if p == nil || p.Dead || spec.Root.Start != 0 && p.Identity != spec.Root {
			return tracer.ErrNotFound
		}
		if p.Flags&tracer.FlagProtected != 0 {
			return tracer.ErrProtected
		}
		if spec.KeptFrom != 0 {
			if old := k.sessions[spec.KeptFrom]; old == nil || p.Session != spec.KeptFrom || old.Root == p.Identity {
				return tracer.ErrRoot
			}
			k.move(p, 0)
			defer func(why tracer.Evidence, by tracer.Identity) {
				p.Evidence,
					p.Creator = why, by
			}(p.Evidence, p.Creator)
		}
		p.Source = spec.Source
		for k.nextSlot++; spec.Taken != nil && spec.Taken(k.id()); k.nextSlot++ {
		}
		k.nextSlot--
		spec.KeepOnRootExit = spec.KeepOnRootExit || spec.KeptFrom != 0
		id = k.open(p, tracer.SessionInfo{Owner: spec.Owner, UID: spec.UID, Kept: spec.KeptFrom != 0})
		setTerms(k.sessions[id], spec)
		if o := k.procs[spec.Owner.PID]; o != nil {
			k.remember(o, tracer.FlagOwner)
		}
		return nil
	})
	return id, err
}

// End begins an end.
func (k *Kernel) End(id tracer.SessionID, cause tracer.Cause, grace time.Duration) error {
	return k.on("End", id, func(s *tracer.SessionInfo) error {
		k.end(s, cause, grace)
		k.sentence()
		return nil
	})
}

// Sentence condemns sessions past their deadline and sends all signals that are due.
func (k *Kernel) Sentence() (r tracer.PassResult, err error) {
	err = k.call("Sentence", func() error {
		r.Sent = k.sentence()
		return nil
	})
	return r, err
}

func (k *Kernel) sentence() (sent uint32) {
	sent = k.pass(true)
	if k.Newborn != nil {
		k.Newborn()
	}
	return sent
}

// Settle closes a session that ends and has no member left.
func (k *Kernel) Settle(id tracer.SessionID) (info tracer.SessionInfo, err error) {
	err = k.on("Settle", id, func(s *tracer.SessionInfo) error {
		unasked := s.State == tracer.StateActive && k.dead(s.Root)
		if s.Live == 0 && s.Dying == 0 && (unasked || s.State == tracer.StateEnding || s.State == tracer.StateCondemned) {
			if unasked {
				s.Cause, s.EndedAt = tracer.CauseRootExit, uint64(k.now)
			}
			k.enterState(s, tracer.StateEmpty)
		}
		info = k.info(s)
		return k.fail["Session"] // which the tracer asks then
	})
	return info, err
}

// Release frees the record of a session that is over or dissolved, when its subtree is empty.
// Its dead that were not waited for then belong to the parent session.
func (k *Kernel) Release(id tracer.SessionID) error {
	return k.on("Release", id, func(s *tracer.SessionInfo) error {
		if s.State < tracer.StateEmpty || s.Live > 0 || s.Dying > 0 || s.Nested > 0 {
			return tracer.ErrBusy
		}
		if around := k.sessions[s.Parent]; around != nil {
			around.Nested--
			for _, p := range k.procs {
				if p.Session == id {
					p.Session = s.Parent
				}
			}
		}
		delete(k.sessions, id)
		return nil
	})
}

// Protect enters a process that no pass signals.
func (k *Kernel) Protect(pid uint32) error {
	return k.call("Protect", func() error {
		p := k.procs[pid]
		switch {
		case p == nil:
			return tracer.ErrNotFound
		case p.Session != 0:
			return tracer.ErrProtected
		}
		k.remember(p, tracer.FlagProtected)
		return nil
	})
}

// remember gives a process an entry without a session, unless it has one.
func (k *Kernel) remember(p *Proc, flag tracer.EntryFlags) {
	if !p.Entered {
		p.Entered, p.Since = true, uint64(k.now)
	}
	p.Flags |= flag
}

// SelfProtect is one of the Settings.
func (k *Kernel) SelfProtect(on bool) error {
	return k.call("SelfProtect", func() error {
		k.asked.SelfProtect = on
		return nil
	})
}

// SetGuard sets another one.
func (k *Kernel) SetGuard(g tracer.Guarding) {
	defer k.lock()()
	k.asked.Guarding = g
}

// WatchMoves implements that of the tracer: this kernel has no cgroups.
func (k *Kernel) WatchMoves(id tracer.SessionID) error {
	return k.on("WatchMoves", id, func(*tracer.SessionInfo) error { return nil })
}

// SetCall implements that of the tracer.
func (k *Kernel) SetCall(id tracer.Identity, call uint32, agent bool) error {
	return k.call("SetCall", func() error {
		p := k.of(id)
		if p == nil || p.Dead || !p.Entered {
			return tracer.ErrNotFound
		}
		if p.Call = call; agent {
			p.Flags |= tracer.FlagSpared
		}
		return nil
	})
}

// LoseRecord removes the record of a session that has members.
func (k *Kernel) LoseRecord(id tracer.SessionID) {
	defer k.lock()()
	delete(k.sessions, id)
}

// Reconciled is how often Reconcile was called.
func (k *Kernel) Reconciled() int {
	defer k.lock()()
	return k.reconciled
}

// Counters returns what Count added.
func (k *Kernel) Counters() (map[string]uint64, error) {
	defer k.lock()()
	return maps.Clone(k.counts), k.fail["Counters"]
}

// RecursionMisses returns what Miss added.
func (k *Kernel) RecursionMisses() (map[string]uint64, error) {
	defer k.lock()()
	return maps.Clone(k.misses), k.fail["RecursionMisses"]
}

// MissedBirths returns the misses of the program that enters new processes.
func (k *Kernel) MissedBirths() (uint64, error) {
	defer k.lock()()
	return k.misses["fork_birth"], k.fail["MissedBirths"]
}

// Miss adds a recursion miss of program.
func (k *Kernel) Miss(program string) {
	defer k.lock()()
	k.misses[program]++
}

// WatchRuns counts nothing.
func (k *Kernel) WatchRuns() (tracer.Runs, error) { return tracer.Runs{}, nil }
