//go:build linux

package tracer

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/takeover"
	"golang.org/x/sys/unix"
)

// MaxDepth is how many sessions may be nested in each other.
const MaxDepth = 8

// session_flags of bpf/lineage.h.
const (
	sessionKeepOnRootExit = 1 << iota
	sessionKept
	sessionAgent
	sessionDrifted
	sessionJoined
	sessionGuarded
	sessionUnguarded
	sessionSpares
	sessionRefuses
)

// run carries out one verb. The caller holds t.verbs.
func (t *Tracer) run(program string, args *bpf.LineageVerbArgs) error {
	if t.baseline {
		return t.runByIterator(program, args)
	}
	m := t.maps[bpf.LineageMapVerb]
	if err := m.Put(uint32(0), args); err != nil {
		return fmt.Errorf("%s: put arguments: %w", program, err)
	}
	ret, err := t.programs[program].Run(&ebpf.RunOptions{})
	if err != nil {
		return fmt.Errorf("%s: run: %w", program, err)
	}
	if err := m.Lookup(uint32(0), args); err != nil {
		return fmt.Errorf("%s: get results: %w", program, err)
	}
	if int32(ret) < 0 {
		return unix.Errno(-int32(ret))
	}
	return nil
}

// verb carries out one verb, and gives its error a meaning.
func (t *Tracer) verb(program string, args *bpf.LineageVerbArgs) error {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	return meaning(t.run(program, args))
}

// meanings is why a verb failed, by what the programs return. An error of a system call has more around it.
var meanings = map[error]error{
	unix.ESRCH: ErrNotFound, unix.ENOENT: ErrNotFound,
	unix.EPERM: ErrProtected, unix.EBUSY: ErrBusy, unix.ELOOP: ErrTooDeep, unix.ENOSPC: ErrFull,
}

func meaning(err error) error { return cmp.Or(meanings[err], err) }

func flag[T ~uint32](set bool, v T) T {
	if set {
		return v
	}
	return 0
}

// Create makes a session and its root a member, and reports it as an [EventBirth] with
// [EvidenceRoot]. If the root is already a member, the session is nested in its
// session. [ErrNotFound]: the root or the owner is gone or another process now.
// [ErrProtected], [ErrTooDeep], [ErrFull]; [ErrRoot] if it is to be kept from a session
// that it is the root of.
func (t *Tracer) Create(s SessionSpec) (SessionID, error) {
	args, err := s.terms()
	if err != nil {
		return 0, fmt.Errorf("create session: %w", err)
	}
	args.Root, args.Owner = wireIdentity(s.Root), wireIdentity(s.Owner)
	args.Random = s.random()
	args.Uid = s.UID
	switch {
	case s.Adopted && s.Source != SourceNone:
		args.Evidence = uint32(s.Source)
	case s.Adopted && s.Rule != 0:
		args.Evidence = uint32(SourceRule)
	case s.Adopted:
		args.Evidence = uint32(SourceRequest)
	}
	if s.agent {
		args.Flags |= sessionAgent
		args.From = uint64(s.inside)
	}
	if s.KeptFrom != 0 {
		args.Flags |= sessionKeepOnRootExit | sessionKept
		args.From = uint64(s.KeptFrom)
	}
	t.verbs.Lock()
	defer t.verbs.Unlock()
	err = meaning(t.create(&args))
	if errors.Is(err, ErrBusy) {
		err = fmt.Errorf("%w of session %v", ErrRoot, s.KeptFrom)
	}
	if err != nil {
		return 0, fmt.Errorf("create session for %v: %w", s.Root, err)
	}
	return SessionID(args.Session), nil
}

// random draws the visible part of the id; 0 with slot 0 would mean no session.
func (s *SessionSpec) random() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:])
		n := binary.NativeEndian.Uint64(b[:]) & (1<<30 - 1)
		if n != 0 && (s.Taken == nil || !s.Taken(SessionID(n<<32))) {
			return n
		}
	}
}

// terms are the arguments for the session's limits, name and rule.
func (s *SessionSpec) terms() (bpf.LineageVerbArgs, error) {
	args := bpf.LineageVerbArgs{
		Grace:        uint64(s.Grace),
		MaxProcesses: s.MaxProcesses,
		MaxLifetime:  uint64(s.MaxLifetime),
		MaxRss:       s.MaxRSS,
		Idle:         uint64(s.Idle),
		Rule:         s.Rule,
		Flags: flag[uint32](s.KeepOnRootExit, sessionKeepOnRootExit) |
			flag[uint32](s.Protection.Spare != SpareNone,
				sessionSpares) | flag[uint32](s.Protection.Spare == SpareRefuse, sessionRefuses),
	}
	name := s.name()
	if n := copy(args.Name[:], name); n != len(name) {
		return args, fmt.Errorf("name of %d bytes is too long", len(name))
	}
	if s.Grace < 0 || s.MaxLifetime < 0 || s.Idle < 0 {
		return args, fmt.Errorf("grace %v, lifetime %v, idle %v: must not be negative",
			s.Grace, s.MaxLifetime, s.Idle)
	}
	switch {
	case s.Protection.Guard == GuardOff, s.For != 0: // what is in a companion session may be there by coincidence
		args.Flags |= sessionUnguarded
	case s.Protection.Guard == GuardOn:
		args.Flags |= sessionGuarded
	}
	return args, nil
}

// SetTerms sets other limits, name and rule for an active session; the rest of the spec
// is ignored. If its root is already dead, the session ends, unless it is to outlive
// its root. [ErrNotFound]; [ErrBusy]: its end has begun.
func (t *Tracer) SetTerms(id SessionID, s SessionSpec) error {
	args, err := s.terms()
	if err != nil {
		return fmt.Errorf("set terms of session %v: %w", id, err)
	}
	args.Session = uint64(id)
	return t.onSession(bpf.LineageProgVerbTerms, "set terms of", &args)
}

func (t *Tracer) create(args *bpf.LineageVerbArgs) error {
	if t.baseline && args.Owner.Tgid != 0 {
		if err := t.run(bpf.BaselineProgVerbOwn, args); err != nil {
			return err
		}
	}
	return t.run(bpf.LineageProgVerbCreate, args)
}

// End starts the end of a session and carries out what is due. Grace 0 condemns it:
// every member gets SIGKILL now, new ones die at birth. Otherwise every member gets
// SIGTERM and SIGCONT now, and SIGKILL after the deadline, in Sentence or at the host's
// next fork, exec or exit. A repeated call can only shorten the deadline; the first
// cause stays.
func (t *Tracer) End(id SessionID, cause Cause, grace time.Duration) error {
	if grace < 0 {
		return fmt.Errorf("end session %v: grace %v is negative", id, grace)
	}
	err := t.onSession(bpf.LineageProgVerbEnd, "end", &bpf.LineageVerbArgs{
		Session: uint64(id), Cause: uint32(cause), Grace: uint64(grace),
	})
	if err == nil && t.features.Level < 3 {
		_, err = t.sentenceFromUser()
	}
	return err
}

// Sentence carries out all that is due on this host: passed deadlines, condemned
// members that live, dead roots and owners.
func (t *Tracer) Sentence() (PassResult, error) {
	if t.features.Level < 3 {
		return t.sentenceFromUser()
	}
	args, err := t.sentence()
	if err != nil {
		return PassResult{}, err
	}
	return PassResult{Visited: args.Visited, Sent: args.Sent, Failed: args.Failed, More: args.More != 0}, nil
}

// sentence updates every session's state and, from level 3 on, sends the signals that
// are due.
func (t *Tracer) sentence() (bpf.LineageVerbArgs, error) {
	var args bpf.LineageVerbArgs
	if err := t.verb(bpf.LineageProgVerbSentence, &args); err != nil {
		return args, fmt.Errorf("carry out the sentence: %w", err)
	}
	return args, nil
}

// Settle updates a session's counts and closes it if it is empty: no live member by the
// counters and by a walk over all processes, and none that is still being torn down.
// Closing it reports an [EventSession] with [StateEmpty], after the last member's exit.
func (t *Tracer) Settle(id SessionID) (SessionInfo, error) {
	if t.baseline {
		return t.settleByWalks(id)
	}
	if err := t.onSession(bpf.LineageProgVerbSettle, "settle",
		&bpf.LineageVerbArgs{Session: uint64(id)}); err != nil {
		return SessionInfo{}, err
	}
	return t.Session(id)
}

// Release frees the record of a session that is over or dissolved. [ErrBusy] as long as
// its subtree is not empty: a member, one that is being torn down, or the record of a
// nested session. Its dead that were not waited for count in the parent session from
// then on. [ErrNotFound].
func (t *Tracer) Release(id SessionID) error {
	if t.baseline {
		if err := t.handDead(id); err != nil {
			return fmt.Errorf("release session %v: %w", id, err)
		}
	}
	return t.onSession(bpf.LineageProgVerbRelease, "release", &bpf.LineageVerbArgs{Session: uint64(id)})
}

func (t *Tracer) onSession(program, verb string, args *bpf.LineageVerbArgs) error {
	if err := t.verb(program, args); err != nil {
		return fmt.Errorf("%s session %v: %w", verb, SessionID(args.Session), err)
	}
	return nil
}

// Protect enters a process that no pass will ever signal. [ErrProtected]: it is already
// a member.
func (t *Tracer) Protect(pid uint32) error {
	if err := t.verb(bpf.LineageProgVerbProtect,
		&bpf.LineageVerbArgs{Root: bpf.LineageIdentity{Tgid: pid}}); err != nil {
		return fmt.Errorf("protect pid %d: %w", pid, err)
	}
	return nil
}

// Unprotect takes the protection of a process away; [ErrNotFound] if it has no entry.
func (t *Tracer) Unprotect(id Identity) error {
	return t.mark(id, 0, FlagProtected)
}

// SetClients replaces the clients, each with the session of the command that it asked for. That session ends, as by its
// owner, when a signal ends the client, or it exits with the code of one, while the session's root lives. A client is a member
// of some session, and stays one. One that is gone, is in no session, or has no room has no effect.
func (t *Tracer) SetClients(all map[Identity]SessionID) error {
	m := t.maps[bpf.LineageMapClients]
	var gone []bpf.LineageIdentity
	set := make(map[Identity]bool)
	err := takeover.Each(m, func(client bpf.LineageIdentity, of *uint64) {
		if id, ok := all[identity(client)]; !ok {
			gone = append(gone, client)
		} else if uint64(id) == *of {
			set[identity(client)] = true
		}
	})
	for i := range gone {
		if e := m.Delete(&gone[i]); !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, e)
		}
	}
	for client, of := range all {
		if set[client] {
			continue
		}
		e := t.mark(client, EntryFlags(bpf.LineageEntryFlagsFLAG_CLIENT), 0)
		if e == nil {
			key, id := wireIdentity(client), uint64(of)
			e = m.Put(&key, &id)
		}
		if !errors.Is(e, ErrNotFound) && !errors.Is(e, unix.E2BIG) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("set clients: %w", err)
	}
	return nil
}

// Identify returns the exact identity of the process that has this PID, zombies
// included; [ErrNotFound] if there is none, or if the PID is a thread's.
func (t *Tracer) Identify(pid uint32) (Identity, error) {
	args := bpf.LineageVerbArgs{Root: bpf.LineageIdentity{Tgid: pid}}
	if err := t.verb(bpf.LineageProgVerbWhois, &args); err != nil {
		return Identity{}, fmt.Errorf("identify pid %d: %w", pid, err)
	}
	return identity(args.Root), nil
}

// MissedBirths returns how many births may have been missed since the kernel side was
// loaded: none if a second writer, which cannot be skipped, enters new processes too.
func (t *Tracer) MissedBirths() (uint64, error) {
	if t.Features().SecondWriters {
		return 0, nil
	}
	misses, err := t.RecursionMisses()
	return misses[bpf.LineageProgForkBirth], err
}

// Reconcile enters processes whose birth was missed, and only those: without an entry,
// and born after their parent was entered. One for which there is not enough room is killed, as
// at its birth at level 3. Reconcile removes entries whose process is gone,
// and moves members of a session without a record to the session of their creator, or
// to none. Call it only when a miss or such a member was recorded.
func (t *Tracer) Reconcile() (added, removed int, err error) {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	for range maxReconciles {
		more, gone, failed, err := t.reconcile()
		added, removed = added+more, removed+gone
		if err != nil || failed == 0 {
			return added, removed, err
		}
		if n, err := t.killUnentered(); err != nil || n == 0 {
			return added, removed, err
		}
	}
	return added, removed, nil
}

// reconcile makes one pass; failed is how many processes there was no room for.
func (t *Tracer) reconcile() (added, removed, failed int, err error) {
	if t.baseline {
		return t.reconcileByWalks()
	}
	var args bpf.LineageVerbArgs
	if err := t.run(bpf.LineageProgVerbReconcile, &args); err != nil {
		return 0, 0, 0, fmt.Errorf("reconcile: %w", err)
	}
	return int(args.Added), int(args.Removed), int(args.Failed), nil
}

// SetCall has a process, and what it starts from now on, work for a tool call, by its number, or for none (0). agent:
// it makes the calls, so what it started before may work for another one. [ErrNotFound].
func (t *Tracer) SetCall(id Identity, call uint32, agent bool) error {
	err := t.verb(bpf.LineageProgVerbMark, &bpf.LineageVerbArgs{Root: wireIdentity(id),
		Flags: flag(agent, uint32(FlagSpared)), Calls: 1, Call: call})
	if err != nil {
		return fmt.Errorf("set the call of %v: %w", id, err)
	}
	return nil
}

func wireIdentity(id Identity) bpf.LineageIdentity {
	return bpf.LineageIdentity{Start: id.Start, Tgid: id.PID}
}

func identity(id bpf.LineageIdentity) Identity {
	return Identity{PID: id.Tgid, Start: id.Start}
}

// WatchMoves has each move of a member of the session, or of one nested in it, to another cgroup reported as an
// [EventMoved] from now on, and the birth of one elsewhere than its creator. [ErrNotFound].
func (t *Tracer) WatchMoves(id SessionID) error {
	return t.onSession(bpf.LineageProgVerbMark, "watch moves of", &bpf.LineageVerbArgs{Session: uint64(id)})
}
