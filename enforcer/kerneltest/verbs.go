//go:build linux

package kerneltest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// The methods of *tracer.Tracer.

// Features returns Feature.
func (k *Kernel) Features() tracer.Features { return k.Feature }

// Read returns the oldest event, ErrFlushed after the last one once Flush was called,
// and os.ErrClosed after CloseRead.
func (k *Kernel) Read(ev *tracer.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
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
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushed = true
	k.cond.Broadcast()
	return nil
}

// Close does not end the kernel: it only wakes Read.
func (k *Kernel) Close() error { return k.CloseRead() }

// CloseRead wakes Read. Reopen lets it read again.
func (k *Kernel) CloseRead() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.cond.Broadcast()
	return nil
}

// Reopen reverts CloseRead, as for a new daemon.
func (k *Kernel) Reopen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = false
}

// Snapshot calls each in order of PID.
func (k *Kernel) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	k.mu.Lock()
	if err := k.fail["Snapshot"]; err != nil {
		k.mu.Unlock()
		return err
	}
	var all []tracer.Process
	for _, p := range k.tasks() {
		if id == 0 || k.within(p.Session, id) {
			all = append(all, p.Process)
			all[len(all)-1].Stops = p.Stopped
		}
	}
	k.mu.Unlock()
	slices.SortFunc(all, func(a, b tracer.Process) int { return int(a.PID) - int(b.PID) })
	for i := range all {
		if err := each(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// Lookup returns the entry of a live process.
func (k *Kernel) Lookup(pid uint32) (tracer.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Lookup"]; err != nil {
		return tracer.Entry{}, err
	}
	p := k.procs[pid]
	if p == nil || !p.Entered || p.Dead {
		return tracer.Entry{}, fmt.Errorf("lookup pid %d: %w", pid, tracer.ErrNotFound)
	}
	return tracer.Entry{Identity: p.Identity, Session: p.Session, Since: p.Since, Creator: p.Creator,
		Evidence: p.Evidence, Flags: p.Flags}, nil
}

// Identify returns the identity of any process, zombies too.
func (k *Kernel) Identify(pid uint32) (tracer.Identity, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Identify"]; err != nil {
		return tracer.Identity{}, err
	}
	if p := k.procs[pid]; p != nil {
		return p.Identity, nil
	}
	return tracer.Identity{}, fmt.Errorf("identify pid %d: %w", pid, tracer.ErrNotFound)
}

// Sessions lists them by id.
func (k *Kernel) Sessions() ([]tracer.SessionInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []tracer.SessionInfo
	for _, s := range k.sessions {
		all = append(all, k.info(s))
	}
	slices.SortFunc(all, func(a, b tracer.SessionInfo) int { return int(int64(a.ID) - int64(b.ID)) })
	return all, k.fail["Sessions"]
}

// Session returns one record.
func (k *Kernel) Session(id tracer.SessionID) (tracer.SessionInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session(id)
}

func (k *Kernel) session(id tracer.SessionID) (tracer.SessionInfo, error) {
	if err := k.fail["Session"]; err != nil {
		return tracer.SessionInfo{}, err
	}
	if s := k.sessions[id]; s != nil {
		return k.info(s), nil
	}
	return tracer.SessionInfo{}, fmt.Errorf("session %v: %w", id, tracer.ErrNotFound)
}

// info returns a record as the tracer reports it: dissolved sessions around it are left out.
func (k *Kernel) info(s *tracer.SessionInfo) tracer.SessionInfo {
	out := *s
	out.Parent = k.home(s.Parent)
	out.KeepOnRootExit = k.keep[s.ID]
	return out
}

// Create opens a session over a live process.
func (k *Kernel) Create(spec tracer.SessionSpec) (tracer.SessionID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Create"]; err != nil {
		return 0, err
	}
	p := k.procs[spec.Root.PID]
	if p == nil || p.Dead || spec.Root.Start != 0 && p.Identity != spec.Root {
		return 0, fmt.Errorf("create session: %w", tracer.ErrNotFound)
	}
	if p.Flags&tracer.FlagProtected != 0 {
		return 0, fmt.Errorf("create session: %w", tracer.ErrProtected)
	}
	if spec.KeptFrom != 0 {
		if old := k.sessions[spec.KeptFrom]; old == nil || p.Session != spec.KeptFrom || old.Root == p.Identity {
			return 0, fmt.Errorf("create session: %w", tracer.ErrRoot)
		}
		k.move(p, 0)
		defer func(why tracer.Evidence, by tracer.Identity) { p.Evidence, p.Creator = why, by }(p.Evidence, p.Creator)
	}
	p.Source = spec.Source
	for k.nextSlot++; spec.Taken != nil && spec.Taken(k.id()); k.nextSlot++ {
	}
	k.nextSlot--
	id, s := k.open(p)
	s.Owner, s.Name, s.UID, s.Grace, s.Rule = spec.Owner, spec.Name, spec.UID, spec.Grace, spec.Rule
	s.MaxProcesses, s.MaxLifetime, s.MaxRSS, s.Idle = spec.MaxProcesses, spec.MaxLifetime, spec.MaxRSS, spec.Idle
	s.Kept = spec.KeptFrom != 0
	s.For, s.Weak = spec.For, spec.Weak
	if s.MaxLifetime > 0 {
		s.Expires = s.Created + uint64(s.MaxLifetime)
	}
	k.keep[id] = spec.KeepOnRootExit || s.Kept
	if o := k.procs[spec.Owner.PID]; o != nil {
		k.remember(o, tracer.FlagOwner)
	}
	return id, nil
}

// End begins an end.
func (k *Kernel) End(id tracer.SessionID, cause tracer.Cause, grace time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["End"]; err != nil {
		return err
	}
	s := k.sessions[id]
	if s == nil {
		return fmt.Errorf("end session %v: %w", id, tracer.ErrNotFound)
	}
	k.end(s, cause, grace)
	k.pass(true)
	if k.Newborn != nil {
		k.Newborn()
	}
	return nil
}

// Sentence condemns sessions past their deadline and sends all signals that are due.
func (k *Kernel) Sentence() (tracer.PassResult, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var r tracer.PassResult
	if err := k.fail["Sentence"]; err != nil {
		return r, err
	}
	r.Sent = k.pass(true)
	if k.Newborn != nil {
		k.Newborn()
	}
	return r, nil
}

// Settle closes a session that ends and has no member left.
func (k *Kernel) Settle(id tracer.SessionID) (tracer.SessionInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Settle"]; err != nil {
		return tracer.SessionInfo{}, err
	}
	if s := k.sessions[id]; s != nil {
		root := k.procs[s.Root.PID]
		gone := root == nil || root.Identity != s.Root || root.Dead
		ending := s.State == tracer.StateEnding || s.State == tracer.StateCondemned
		if s.Live == 0 && s.Dying == 0 && (ending || gone && s.State == tracer.StateActive) {
			if s.State == tracer.StateActive {
				s.Cause, s.EndedAt = tracer.CauseRootExit, uint64(k.now)
			}
			s.State = tracer.StateEmpty
			k.emit(tracer.Event{Type: tracer.EventSession, Session: id, State: s.State, Cause: s.Cause})
		}
	}
	return k.session(id)
}

// Release frees the record of a session that is over or dissolved, when its subtree is empty.
// Its dead that were not waited for then belong to the parent session.
func (k *Kernel) Release(id tracer.SessionID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Release"]; err != nil {
		return err
	}
	s := k.sessions[id]
	if s == nil {
		return fmt.Errorf("release session %v: %w", id, tracer.ErrNotFound)
	}
	if s.State < tracer.StateEmpty || s.Live > 0 || s.Dying > 0 || s.Nested > 0 {
		return fmt.Errorf("release session %v: %w", id, tracer.ErrBusy)
	}
	if around := k.sessions[s.Parent]; around != nil {
		around.Nested--
		for _, p := range k.tasks() {
			if p.Session == id {
				p.Session = s.Parent
			}
		}
	}
	delete(k.sessions, id)
	return nil
}

// Protect enters a process that no pass signals.
func (k *Kernel) Protect(pid uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.procs[pid]
	if p == nil {
		return fmt.Errorf("protect pid %d: %w", pid, tracer.ErrNotFound)
	}
	if p.Session != 0 {
		return fmt.Errorf("protect pid %d: %w", pid, tracer.ErrProtected)
	}
	k.remember(p, tracer.FlagProtected)
	return k.fail["Protect"]
}

// remember gives a process an entry without a session, unless it has one.
func (k *Kernel) remember(p *Proc, flag tracer.EntryFlags) {
	if !p.Entered {
		p.Entered, p.Since = true, uint64(k.now)
	}
	p.Flags |= flag
}

// SelfProtect notes the last request.
func (k *Kernel) SelfProtect(on bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.selfProtect = on
	return k.fail["SelfProtect"]
}

// SetGuard notes the last request.
func (k *Kernel) SetGuard(g tracer.Guarding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks.guarding = g
}

// Guarding returns the last request.
func (k *Kernel) Guarding() tracer.Guarding {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looks.guarding
}

// SelfProtected returns the last request.
func (k *Kernel) SelfProtected() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.selfProtect
}

// LoseRecord removes the record of a session that has members.
func (k *Kernel) LoseRecord(id tracer.SessionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sessions, id)
}

// Reconciled is how often Reconcile was called.
func (k *Kernel) Reconciled() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reconciled
}

// Counters returns what Count added.
func (k *Kernel) Counters() (map[string]uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.counts), k.fail["Counters"]
}

// RecursionMisses returns what Miss added.
func (k *Kernel) RecursionMisses() (map[string]uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.misses), k.fail["RecursionMisses"]
}

// MissedBirths returns the misses of the program that enters new processes.
func (k *Kernel) MissedBirths() (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.misses["fork_birth"], k.fail["MissedBirths"]
}

// Miss adds a recursion miss of program.
func (k *Kernel) Miss(program string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.misses[program]++
}
