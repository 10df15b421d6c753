//go:build linux

package enforcer

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
)

// CheckEnds is CheckEnd for many sessions, with one snapshot: the refusal of each that must not end.
func (e *Enforcer) CheckEnds(sessions []tracer.SessionInfo, caller tracer.Identity) (map[tracer.SessionID]error, error) {
	host, spared, err := e.look(caller)
	if err != nil {
		return nil, err
	}
	parents := make(map[tracer.SessionID]tracer.SessionID, len(sessions))
	for i := range sessions {
		parents[sessions[i].ID] = sessions[i].Parent
	}
	refused := make(map[tracer.SessionID]error)
	for _, p := range host {
		if p.Session == 0 || p.Zombie {
			continue
		}
		if err := spared.refuse(&p); err != nil {
			for id, n := p.Session, 0; id != 0 && n < tracer.MaxDepth; id, n = parents[id], n+1 {
				refused[id] = err
			}
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
