//go:build linux

package tracer

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/bpf"
)

// maxPasses bounds how often a walk over all processes is repeated. Each walk finds the
// processes whose parent was entered before. In the order of the task list one walk
// finds all of them, except those that were reparented.
const maxPasses = 64

// Enter makes an outsider a member on the evidence of source, or with from a member of that session,
// which may be its root, and the same session; creator is the process that asked for it, if known.
// Its descendants stay where they are: Adopt enters those of an outsider. [ErrNotFound]: the process
// or the session is gone. [ErrProtected]: the process is protected, or not in from. [ErrBusy]: the
// session is over or condemned, and would kill the process.
func (t *Tracer) Enter(from, id SessionID, p, creator Identity, source Source) error {
	args := bpf.LineageVerbArgs{
		Session: uint64(id), From: uint64(from), Root: wireIdentity(p), Owner: wireIdentity(creator),
		Evidence: uint32(EvidenceAdopted) | uint32(source)<<8,
	}
	if err := t.verb(bpf.LineageProgVerbEnter, &args); err != nil {
		return fmt.Errorf("enter %v for session %v: %w", p, id, err)
	}
	return nil
}

// Adopt enters every descendant of the session's members that is in no session,
// following the kernel's parents, and reports each as an [EventBirth]. No process with
// a living ancestor in the session is missed: during Adopt an outsider that forks is
// entered with its child. Adopt returns how many its walks entered: none from when the
// session is over or condemned. Unless uid is 0, a process that has another uid, real,
// effective, saved or of the file system, is left out, with its descendants.
func (t *Tracer) Adopt(id SessionID, uid uint32) (int, error) {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	t.control.setAdopting(id, uid)
	defer t.control.setAdopting(0, 0)
	n, err := t.untilSettled(bpf.LineageProgVerbAdopt, bpf.LineageVerbArgs{Session: uint64(id)})
	if err != nil {
		return n, fmt.Errorf("adopt for session %v: %w", id, err)
	}
	return n, nil
}

// Follow moves the members of from whose creator is in id to id, and so on down. It
// returns how many: none from when id is over or condemned.
func (t *Tracer) Follow(from, id SessionID) (int, error) {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	n, err := t.untilSettled(bpf.LineageProgVerbFollow,
		bpf.LineageVerbArgs{Session: uint64(id), From: uint64(from)})
	if err != nil {
		return n, fmt.Errorf("move from session %v to %v: %w", from, id, err)
	}
	return n, nil
}

// Move moves one member from a session to another. [ErrNotFound]: the member is not in
// from, or it or the other session is gone. [ErrRoot]: it is the root of from. [ErrBusy]
// as for Enter.
func (t *Tracer) Move(p Identity, from, to SessionID) error {
	args := bpf.LineageVerbArgs{Root: wireIdentity(p), From: uint64(from), Session: uint64(to)}
	err := t.verb(bpf.LineageProgVerbMove, &args)
	if errors.Is(err, ErrProtected) {
		err = ErrRoot
	}
	if err != nil {
		return fmt.Errorf("move %v from session %v to %v: %w", p, from, to, err)
	}
	return nil
}

// Dissolve releases all members of an active session to the innermost session around it
// that was not dissolved, or to none. The session is then in [StateDissolved] and has
// no effect; no process is signalled. What is nested in it stays, as part of the
// session around it. [ErrBusy]: its end has begun. [ErrNotFound].
func (t *Tracer) Dissolve(id SessionID) (int, error) {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	n, err := t.untilSettled(bpf.LineageProgVerbDissolve, bpf.LineageVerbArgs{Session: uint64(id)})
	if err != nil {
		return n, fmt.Errorf("dissolve session %v: %w", id, meaning(err))
	}
	return n, nil
}

// untilSettled repeats a walk until it changes nothing, and nothing is left to change.
func (t *Tracer) untilSettled(program string, args bpf.LineageVerbArgs) (int, error) {
	total, failed := 0, uint32(0)
	for range maxPasses {
		a := args
		if err := t.run(program, &a); err != nil {
			return total, err
		}
		if a.Added == 0 && a.Failed == 0 {
			return total, nil
		}
		total, failed = total+int(a.Added), a.Failed
	}
	return total, fmt.Errorf("not settled after %d scans: %d processes could not be entered or moved",
		maxPasses, failed)
}
