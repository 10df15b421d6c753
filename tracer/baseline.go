//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/takeover"
	"golang.org/x/sys/unix"
)

const maxReconciles = 8 // walks in the order of PIDs: a child's may be lower than its parent's

// runByIterator is run with the baseline programs. The caller holds t.verbs.
func (t *Tracer) runByIterator(program string, args *bpf.LineageVerbArgs) error {
	m := t.maps[bpf.LineageMapVerb]
	args.Err = -int32(unix.ESRCH) // no process was met
	if err := m.Put(uint32(0), args); err != nil {
		return fmt.Errorf("%s: put arguments: %w", program, err)
	}
	if err := t.iterate(program, io.Discard); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	if err := m.Lookup(uint32(0), args); err != nil {
		return fmt.Errorf("%s: get results: %w", program, err)
	}
	if args.Err < 0 {
		return unix.Errno(-args.Err)
	}
	return nil
}

// reconcileByWalks is reconcile with the baseline programs. The caller holds t.verbs.
func (t *Tracer) reconcileByWalks() (added, removed, failed int, err error) {
	for range maxReconciles {
		var args bpf.LineageVerbArgs
		if err := t.run(bpf.LineageProgVerbReconcile, &args); err != nil {
			return added, removed, failed, fmt.Errorf("reconcile: %w", err)
		}
		failed = int(args.Failed)
		if args.Added == 0 {
			break
		}
		added += int(args.Added)
	}
	gone, err := t.entriesWithoutProcess()
	if err != nil {
		return added, removed, failed, fmt.Errorf("reconcile: %w", err)
	}
	for _, id := range gone {
		// The program walks once more and removes the entry only if it does not meet the process.
		args := bpf.LineageVerbArgs{Root: wireIdentity(id)}
		if err := t.run(bpf.BaselineProgVerbBury, &args); err != nil {
			return added, removed, failed, fmt.Errorf("reconcile %v: %w", id, err)
		}
		removed += int(args.Removed)
	}
	return added, removed, failed, nil
}

// entriesWithoutProcess returns the entered processes that a walk which began later did
// not meet alive. The caller holds t.verbs.
func (t *Tracer) entriesWithoutProcess() ([]Identity, error) {
	var entered []Identity
	err := takeover.Each(t.maps[bpf.LineageMapProcesses], func(pid uint32, e *bpf.LineageEntry) {
		if e.Start&takeover.EntryDead == 0 {
			entered = append(entered, Identity{PID: pid, Start: e.Start})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the entries: %w", err)
	}
	return t.unmet(entered, func(p *Process) bool { return !p.Dead })
}

// settleByWalks is Settle with the baseline programs: the walk ends the dying of
// zombies; a process that was already waited for is not met by it.
func (t *Tracer) settleByWalks(id SessionID) (SessionInfo, error) {
	for looked := false; ; looked = true {
		before, err := t.Session(id)
		if err != nil {
			return SessionInfo{}, fmt.Errorf("settle: %w", err)
		}
		args := bpf.LineageVerbArgs{Session: uint64(id), Forks: before.Forks}
		if err := t.onSession(bpf.LineageProgVerbSettle, "settle", &args); err != nil {
			return SessionInfo{}, err
		}
		info, err := t.Session(id)
		if err != nil || looked || info.Live > 0 || info.Dying == 0 {
			return info, err
		}
		if err := t.reapUnmet(); err != nil {
			return info, err
		}
	}
}

// endOverLimit begins the end of sessions whose live members and zombies exceed
// max_processes. Hooks count them, but are notified of a wait too late to decide.
func (t *Tracer) endOverLimit() (ended bool, err error) {
	over, err := t.overLimit()
	if err != nil || len(over) == 0 {
		return false, err
	}
	if err := t.reapUnmet(); err != nil {
		return false, err
	}
	if over, err = t.overLimit(); err != nil {
		return false, err
	}
	for _, s := range over {
		err := t.onSession(bpf.LineageProgVerbEnd, "end", &bpf.LineageVerbArgs{
			Session: uint64(s.ID), Cause: uint32(CauseMaxProcesses), Grace: uint64(s.Grace),
		})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return ended, err
		}
		ended = true
	}
	return ended, nil
}

func (t *Tracer) overLimit() ([]SessionInfo, error) {
	all, err := t.Sessions()
	return slices.DeleteFunc(all, func(s SessionInfo) bool {
		return s.State != StateActive || s.MaxProcesses == 0 || s.Live+s.Unreaped <= int64(s.MaxProcesses)
	}), err
}

// reapUnmet counts dead processes as reaped if a walk does not meet them. The kernel
// reports them on its own, but a grace period late; from 6.2 on it may not report them
// at all.
func (t *Tracer) reapUnmet() error {
	t.verbs.Lock()
	defer t.verbs.Unlock()
	dead, err := t.dead(0)
	if err != nil {
		return err
	}
	if dead, err = t.unmet(dead, func(*Process) bool { return true }); err != nil {
		return err
	}
	for _, id := range dead {
		err := t.run(bpf.BaselineProgVerbReap, &bpf.LineageVerbArgs{Root: wireIdentity(id)})
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("reap %v: %w", id, err)
		}
	}
	return nil
}

// handDead hands the dead of a session that is about to be released over to the session
// around it, where they count as well.
func (t *Tracer) handDead(id SessionID) error {
	s, c, err := t.record(slotOf(id))
	if err != nil || SessionID(s.Id) != id || s.Parent == 0 || s.Held <= s.Live ||
		s.Live > 0 || s.Dying > 0 || c.Nested > 0 ||
		State(c.Status&0xff) < StateEmpty {
		return err
	}
	t.verbs.Lock()
	dead, err := t.dead(id)
	for _, p := range dead {
		args := bpf.LineageVerbArgs{Session: uint64(id), Root: wireIdentity(p)}
		if e := t.run(bpf.BaselineProgVerbHandDead, &args); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, fmt.Errorf("hand over %v: %w", p, e))
		}
	}
	t.verbs.Unlock()
	if err != nil {
		return err
	}
	return t.reapUnmet() // those whose free hook came meanwhile
}

// dead lists the dead of a session, or of all if id is 0, that were not counted as reaped.
func (t *Tracer) dead(id SessionID) (dead []Identity, err error) {
	err = takeover.Each(t.maps[bpf.LineageMapProcesses], func(pid uint32, e *bpf.LineageEntry) {
		start, session, _ := takeover.Dead(e.Start, e.Session)
		if start != 0 && (id == 0 || SessionID(session) == id) {
			dead = append(dead, Identity{PID: pid, Start: start})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the dead: %w", err)
	}
	return dead, nil
}

// unmet returns those of ids that a walk which begins now does not meet, or meets and
// as rejects. The caller holds t.verbs.
func (t *Tracer) unmet(ids []Identity, as func(*Process) bool) ([]Identity, error) {
	met := map[Identity]bool{}
	raw, err := t.walk(0)
	if err != nil {
		return nil, fmt.Errorf("scan all tasks: %w", err)
	}
	err = records(raw, func(p *Process) error {
		met[p.Identity] = as(p)
		return nil
	})
	return slices.DeleteFunc(ids, func(id Identity) bool { return met[id] }), err
}
