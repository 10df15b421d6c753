//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// closerLimit bounds how long the syscall closer may stay attached in one
// sentence: it costs about 0.1 µs on every syscall of the host.
var closerLimit = 2 * time.Second

// sentenceFromUser is the sentence at level 2: passes over the task list signal by pidfd, while a program on sys_enter
// kills each condemned member that no pass has met. A member that forks enters a syscall first: both are complete.
func (t *Tracer) sentenceFromUser() (PassResult, error) {
	var total PassResult
	var closer link.Link
	defer func() {
		if closer != nil {
			closer.Close()
		}
	}()
	for deadline := time.Now().Add(closerLimit); ; {
		args, err := t.sentence()
		if err != nil {
			return total, err
		}
		total.Visited = args.Visited
		if t.baseline {
			ended, err := t.endOverLimit()
			if err != nil {
				return total, err
			}
			if ended {
				continue
			}
		}
		if args.Unsent == 0 {
			return total, nil
		}
		if closer == nil {
			if closer, err = t.attachCloser(); err != nil {
				return total, err
			}
		}
		sent, failed, again, err := t.signalMembers()
		if err != nil {
			return total, err
		}
		total.Sent += sent
		total.Failed = failed
		// The remaining members were not met, could not be signalled, or are continued all the time.
		if sent == 0 || again || time.Now().After(deadline) {
			total.More = true
			return total, nil
		}
	}
}

// attachCloser returns nil without an error while another sentence has the closer attached, in
// this process or in another one with the same pins: up to 6.9 the kernel accepts a program only
// once per tracepoint. When that sentence is over the next pass attaches it.
func (t *Tracer) attachCloser() (link.Link, error) {
	l, err := link.AttachTracing(link.TracingOptions{Program: t.programs[bpf.LineageProgSyscallCloser]})
	if errors.Is(err, unix.EEXIST) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("attach the syscall closer: %w", err)
	}
	return l, nil
}

// signalMembers makes one pass over the members of all sessions that end. Only one runs
// at a time: it notes which members it sends SIGTERM, and the next one sees that. again: a member
// that a pause had stopped was continued by another process.
func (t *Tracer) signalMembers() (sent, failed uint32, again bool, err error) {
	t.passes.Lock()
	defer t.passes.Unlock()
	sessions, err := t.Sessions()
	if err != nil {
		return 0, 0, false, err
	}
	byID := make(map[SessionID]*SessionInfo, len(sessions))
	for i := range sessions {
		byID[sessions[i].ID] = &sessions[i]
	}
	err = t.Snapshot(0, func(p *Process) error {
		sig := demand(p, byID)
		if sig == 0 {
			return nil
		}
		switch err := t.signal(p.Identity, sig); {
		case err == nil:
			sent++
			again = again || sig == unix.SIGSTOP && p.Flags&FlagStopped != 0
		case !errors.Is(err, ErrNotFound):
			failed++
		}
		return nil
	})
	return sent, failed, again, err
}

// demand is the signal that the sessions of a member ask for, 0: none; the same as
// due_signal of bpf/judge.h.
func demand(p *Process, sessions map[SessionID]*SessionInfo) unix.Signal {
	if p.Dead || p.Killed || p.Flags&FlagProtected != 0 {
		return 0
	}
	var sig unix.Signal
	paused := false
	for s, n := sessions[p.Session], 0; s != nil && n < MaxDepth; s, n = sessions[s.Parent], n+1 {
		paused = paused || s.Paused != 0
		switch {
		case s.State.Kills() || s.State == StateEnding && paused:
			return unix.SIGKILL
		case s.State == StateEnding && p.Flags&FlagTermed == 0 && (s.EndedAt == 0 || p.Since <= s.EndedAt):
			sig = unix.SIGTERM
		}
	}
	switch {
	case sig != 0:
		return sig
	case paused && !p.Stops:
		return unix.SIGSTOP
	case !paused && p.Flags&FlagStopped != 0:
		return unix.SIGCONT
	}
	return 0
}

// signal sends to exactly the named process. It was seen alive before its pidfd was
// opened; if it is still entered afterwards, no other process can have had its PID in
// between.
func (t *Tracer) signal(id Identity, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(int(id.PID), 0)
	if err != nil {
		return fmt.Errorf("open pidfd of %v: %w", id, notFound(err))
	}
	defer unix.Close(fd)
	// Tested first: what the entry notes as sent must have been sent.
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		return fmt.Errorf("signal %v: %w", id, notFound(err))
	}
	set, clear := FlagTermed, EntryFlags(0)
	switch sig {
	case unix.SIGKILL:
		set = FlagKilled
	case unix.SIGSTOP:
		set, clear = FlagStopped, FlagResumed
	case unix.SIGCONT:
		set, clear = FlagResumed, FlagStopped
	}
	if err := t.mark(id, set, clear); err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("send %v to %v: %w", sig, id, notFound(err))
	}
	if sig == unix.SIGTERM {
		// A stopped process acts on SIGTERM only when it runs again.
		if err := unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0); err != nil {
			return fmt.Errorf("continue %v: %w", id, notFound(err))
		}
	}
	return nil
}

// mark sets and clears flags of an entry: what is about to be sent to the process, and
// how it is protected. [ErrNotFound] if it has no entry any more.
func (t *Tracer) mark(id Identity, set, clear EntryFlags) error {
	err := t.verb(bpf.LineageProgVerbMark, &bpf.LineageVerbArgs{Root: wireIdentity(id),
		Flags: uint32(set), Cleared: uint32(clear)})
	if err != nil {
		return fmt.Errorf("mark %v: %w", id, err)
	}
	return nil
}

// killUnentered kills the processes that reconcile would enter if there were room: below
// level 3 the fork hook can kill no newborn that it could not enter. They are found by
// their parents, so it comes before the parents are signalled. The caller holds t.verbs.
func (t *Tracer) killUnentered() (n int, err error) {
	found, err := t.unentered()
	if err != nil {
		return 0, err
	}
	for _, id := range found {
		switch err := t.killOne(id); {
		case err == nil:
			n++
		case !errors.Is(err, ErrNotFound):
			return n, err
		}
	}
	return n, nil
}

// unentered returns the living processes without an entry that were born to a member
// after that was entered, and their descendants. The caller holds t.verbs.
func (t *Tracer) unentered() (found []Identity, err error) {
	raw, err := t.walk(0)
	if err != nil {
		return nil, fmt.Errorf("scan all tasks: %w", err)
	}
	var all []Process
	err = records(raw, func(p *Process) error {
		all = append(all, *p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// When it was entered, or born to a process that should have been.
	member := make(map[Identity]uint64, len(all))
	for i := range all {
		if p := &all[i]; p.Session != 0 && !p.Dead {
			member[p.Identity] = p.Since
		}
	}
	for more := true; more; {
		more = false
		for i := range all {
			p := &all[i]
			since, of := member[p.Parent]
			if _, known := member[p.Identity]; known || !of || p.Start <= since ||
				p.Since != 0 || p.Dead || p.Kernel {
				continue
			}
			member[p.Identity] = p.Start
			found, more = append(found, p.Identity), true
		}
	}
	return found, nil
}

// killOne kills a process that has no entry. Its identity is compared after its pidfd was
// opened, so that no other process with the PID is hit.
func (t *Tracer) killOne(id Identity) error {
	fd, err := unix.PidfdOpen(int(id.PID), 0)
	if err != nil {
		return fmt.Errorf("open pidfd of %v: %w", id, notFound(err))
	}
	defer unix.Close(fd)
	args := bpf.LineageVerbArgs{Root: bpf.LineageIdentity{Tgid: id.PID}}
	if err := t.run(bpf.LineageProgVerbWhois, &args); err != nil {
		return fmt.Errorf("identify %v: %w", id, notFound(err))
	}
	if identity(args.Root) != id {
		return fmt.Errorf("kill %v: %w", id, ErrNotFound)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill %v: %w", id, notFound(err))
	}
	return nil
}

func notFound(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return ErrNotFound
	}
	return err
}
