//go:build linux

package enforcer

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Why a guard refuses; a [Refusal] wraps one of these.
var (
	// ErrGuarded: this would end something that must live.
	ErrGuarded = errors.New("guarded")
	// ErrIdentity: the PID belongs to another process now.
	ErrIdentity = errors.New("another process")
	// ErrUnknown: the kernel could not be queried, so nothing may be sent.
	ErrUnknown = errors.New("unknown")
)

// Refusal is the error of a guard. Nothing was sent.
type Refusal struct {
	Kind    error // ErrGuarded, ErrIdentity, ErrUnknown
	Process tracer.Identity
	Comm    string
	Why     string
	Err     error // what failed, for ErrUnknown
}

func (r *Refusal) Error() string {
	switch {
	case r.Err != nil:
		return fmt.Sprintf("%s: %v", r.Why, r.Err)
	case r.Process.IsZero():
		return r.Why
	}
	return fmt.Sprintf("pid %d %s", r.Process.PID, r.Why)
}

func (r *Refusal) Unwrap() []error { return []error{r.Kind, r.Err} }

// maxAncestors bounds a walk to PID 1.
const maxAncestors = 4096

// CheckMembers refuses to end processes of which one is PID 1, a kernel thread, the daemon, the caller or an ancestor of
// either. If the kernel cannot answer, it refuses with ErrUnknown.
func (e *Enforcer) CheckMembers(all []tracer.Process, caller tracer.Identity) error {
	_, spared, err := e.look(caller)
	for i := range all {
		if err == nil && !all[i].Zombie { // which cannot receive a signal
			err = spared.refuse(&all[i])
		}
	}
	return err
}

// CheckEnds is CheckMembers for sessions, nested ones included, with one snapshot: the refusal of each that must not end.
func (e *Enforcer) CheckEnds(ids []tracer.SessionID,
	caller tracer.Identity) (map[tracer.SessionID]error, error) {
	host, spared, err := e.look(caller)
	if err != nil {
		return nil, err
	}
	refused := make(map[tracer.SessionID]error)
	for _, p := range host {
		if p.Session == 0 || p.Zombie {
			continue
		}
		why := spared.refuse(&p)
		for id := p.Session; why != nil && id != 0; {
			refused[id] = why
			info, err := e.kernel.Session(id)
			switch gone := errors.Is(err, tracer.ErrNotFound); {
			case err != nil && !gone:
				return nil, &Refusal{Kind: ErrUnknown, Why: "cannot read the session of a process", Err: err}
			case gone && id == p.Session: // it was moved since: it may be in any of them now
				for _, id := range ids {
					refused[id] = why
				}
			}
			id = info.Parent
		}
	}
	return refused, nil
}

// CheckRoot refuses to make a session of a process that could never be ended: PID 1, a
// kernel thread, the daemon and its ancestors. It also refuses the caller and its
// ancestors.
func (e *Enforcer) CheckRoot(root, caller tracer.Identity) error {
	host, spared, err := e.look(caller)
	if err != nil {
		return err
	}
	p, ok := host[root.PID]
	if !ok {
		return &Refusal{Kind: ErrIdentity, Process: root, Why: "is gone"}
	}
	if p.Identity != root {
		return &Refusal{Kind: ErrIdentity, Process: root, Why: "is another process now"}
	}
	return spared.refuse(&p)
}

type hostProcs map[uint32]tracer.Process

// look takes a snapshot of the host, and finds what in it must live.
func (e *Enforcer) look(caller tracer.Identity) (hostProcs, spared, error) {
	host := make(hostProcs)
	err := e.kernel.Snapshot(0, func(p *tracer.Process) error {
		host[p.PID] = *p
		return nil
	})
	if err != nil {
		return nil, nil, &Refusal{Kind: ErrUnknown, Why: "cannot read the process list", Err: err}
	}
	spared, err := host.spared(e.self, caller)
	return host, spared, err
}

// spared says why a process must live.
type spared map[tracer.Identity]string

// spared collects the daemon, the caller and the ancestors of both. A chain that breaks
// before its end (a parent died while the snapshot was taken) is ErrUnknown: an
// ancestor that was not seen could be a member.
func (h hostProcs) spared(daemon, caller tracer.Identity) (spared, error) {
	s := make(spared)
	for _, who := range []struct {
		id             tracer.Identity
		self, ancestor string
	}{
		{daemon, "is the daemon", "is an ancestor of the daemon"},
		{caller, "is the caller", "is an ancestor of the caller"},
	} {
		why := who.self
		at := who.id
		for range maxAncestors {
			if at.PID <= 1 {
				break // PID 1 is refused by its number, and some kernels hide it from iterators
			}
			p, ok := h[at.PID]
			if !ok || p.Identity != at {
				return nil, &Refusal{Kind: ErrUnknown, Process: at, Why: why + " and cannot be found"}
			}
			if _, seen := s[at]; !seen {
				s[at] = why
			}
			at, why = p.Parent, who.ancestor
		}
	}
	return s, nil
}

func (s spared) refuse(p *tracer.Process) error {
	why := s[p.Identity]
	switch {
	case p.PID == 1:
		why = "is the init process"
	case p.Kernel:
		why = "is a kernel thread"
	case p.Flags&tracer.FlagProtected != 0 && why == "":
		why = "is protected"
	case why == "":
		return nil
	}
	return &Refusal{Kind: ErrGuarded, Process: p.Identity, Comm: p.Comm.String(), Why: why}
}
