//go:build linux

package enforcer

import (
	"context"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// stopTime is how long a pause waits for its members to stop.
const stopTime = 2 * time.Second

// Pause stops the members of a session, and returns those that have not stopped after a
// while, with the reason. They cannot return to their program, and stop when they would. It
// does not check the guards: call CheckEnd first.
func (e *Enforcer) Pause(ctx context.Context, id tracer.SessionID) ([]Leftover, error) {
	if err := e.kernel.Pause(id); err != nil {
		return nil, fmt.Errorf("pause session %v: %w", id, err)
	}
	e.Watch(id)
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		left, err := e.running(id)
		if err != nil || len(left) == 0 || ctx.Err() != nil {
			return left, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Resume continues what a pause of the session has stopped.
func (e *Enforcer) Resume(id tracer.SessionID) error {
	if err := e.kernel.Resume(id); err != nil {
		return fmt.Errorf("resume session %v: %w", id, err)
	}
	return nil
}

// running are the members of a paused session that are not stopped.
func (e *Enforcer) running(id tracer.SessionID) (left []Leftover, err error) {
	err = e.kernel.Snapshot(id, func(p *tracer.Process) error {
		if !p.Dead && !p.Stopped && !p.Killed && p.Flags&tracer.FlagProtected == 0 {
			left = append(left, Leftover{Process: *p})
		}
		return nil
	})
	for i := range left {
		left[i].Why = e.reason(&left[i].Process)
	}
	return left, err
}
