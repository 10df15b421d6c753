//go:build linux

package tracer

import "github.com/lineage-ebpf/lineage/bpf"

// Pause stops every member of a session, and of those nested in it, with SIGSTOP; new ones
// stop at birth. It lasts until Resume, whatever happens to the callers, or until the
// session ends: without a grace then, and without being resumed. A member that is stopped
// already stays as it is. On return each member has its signal, or [Tracer.Sentence] is to be
// called again; one that sleeps in the kernel stops when it leaves it. [ErrNotFound];
// [ErrBusy]: its end has begun, or that of a session around it.
func (t *Tracer) Pause(id SessionID) error { return t.setPause(id, "pause", 1) }

// Resume undoes Pause, also one that was not made: SIGCONT to the members that it has
// stopped, unless a session around this one is paused, too. [ErrNotFound].
func (t *Tracer) Resume(id SessionID) error { return t.setPause(id, "resume", 0) }

func (t *Tracer) setPause(id SessionID, verb string, on uint32) error {
	// A pass that is under way has read the sessions before.
	t.passes.Lock()
	err := t.onSession(bpf.LineageProgVerbPause, verb, &bpf.LineageVerbArgs{Session: uint64(id), Flags: on})
	t.passes.Unlock()
	if err != nil {
		return err
	}
	for range maxPasses {
		if pass, err := t.Sentence(); err != nil || pass.Sent == 0 {
			return err
		}
	}
	return nil
}
