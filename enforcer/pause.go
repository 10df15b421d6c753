//go:build linux

package enforcer

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// stopTime is how long a pause waits for its members to stop.
const stopTime = 2 * time.Second

// noticed is how long a member that ran in spite of a pause counts as running: a pass stops it at once.
const noticed = time.Second

// awake is how many members of a paused session ran at a look.
type awake struct {
	n  int
	at time.Duration
}

// Pause stops the members of a session, and returns those that have not stopped after a
// while, with the reason. They cannot return to their program, and stop when they would. It
// does not check the guards: call CheckEnds first.
func (e *Enforcer) Pause(ctx context.Context, id tracer.SessionID) ([]Leftover, error) {
	if err := e.kernel.Pause(id); err != nil {
		return nil, fmt.Errorf("pause session %v: %w", id, err)
	}
	e.Watch(id)
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	still := false // two looks agree: a member may be stopped for a moment only
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		left, err := e.running(id)
		if err != nil || len(left) == 0 && still || ctx.Err() != nil {
			return left, err
		}
		if still = len(left) == 0; still {
			pause = maxPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (e *Enforcer) Resume(id tracer.SessionID) error {
	if err := e.kernel.Resume(id); err != nil {
		return fmt.Errorf("resume session %v: %w", id, err)
	}
	return nil
}

// Running counts the members of a paused session, without those of nested sessions, that another
// process continued, and that ran at a look in the last second.
func (e *Enforcer) Running(id tracer.SessionID) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a := e.awake[id]; e.clock()-a.at < noticed {
		return a.n
	}
	return 0
}

// count notes which members run that a pause had stopped, before a pass stops them again.
func (e *Enforcer) count(now time.Duration) {
	found := make(map[tracer.SessionID]int)
	err := e.kernel.Snapshot(0, func(p *tracer.Process) error {
		if p.Flags&tracer.FlagStopped != 0 && p.Session != 0 && !p.Stops && !p.Dead && !p.Killed {
			found[p.Session]++
		}
		return nil
	})
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.awake, func(_ tracer.SessionID, a awake) bool { return now-a.at >= noticed })
	for id, n := range found {
		e.awake[id] = awake{n, now}
	}
}

// calm rests after a look at paused sessions, all of them together, for twelve times as long as
// it took: anybody may continue their members all the time, and each look walks the host.
func (e *Enforcer) calm(began time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	for _, x := range e.ends {
		if x.pauses() {
			x.rest = now + min(12*(now-began), maxRest)
		}
	}
}

func (x *ending) pauses() bool { return x.info.State == tracer.StateActive && x.info.Paused != 0 }

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
