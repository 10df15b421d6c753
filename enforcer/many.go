//go:build linux

package enforcer

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
)

// CheckEnds is CheckMembers for all members of sessions, those of nested ones included, with one snapshot of the host: the
// refusal of each session that must not end.
func (e *Enforcer) CheckEnds(ids []tracer.SessionID, caller tracer.Identity) (map[tracer.SessionID]error, error) {
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

// Halt puts a halt in force, and ends sessions with it. It does not check the guards: call CheckEnds
// first.
func (e *Enforcer) Halt(h tracer.Halt, ends []tracer.SessionID) error {
	began := e.clock()
	e.reconcile(false)
	if err := e.kernel.SetHalt(h, ends); err != nil {
		return fmt.Errorf("halt %d sessions: %w", len(ends), err)
	}
	looks := make([]*ending, len(ends))
	for i, id := range ends {
		looks[i] = e.watch(id)
	}
	e.pauseAfter(looks, began)
	return nil
}
