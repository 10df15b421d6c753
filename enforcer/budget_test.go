//go:build linux

package enforcer

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

func TestBudget(t *testing.T) {
	const second = time.Second
	type look struct {
		at    time.Duration
		usage Usage
		want  tracer.Cause
	}
	active := func(s tracer.SessionInfo) tracer.SessionInfo {
		s.State = tracer.StateActive
		return s
	}
	for name, c := range map[string]struct {
		info  tracer.SessionInfo
		looks []look
	}{
		"no limit": {active(tracer.SessionInfo{}), []look{
			{1 * second, Usage{RSS: 1 << 40}, 0}, {9999 * second, Usage{RSS: 1 << 40}, 0},
		}},
		"rss": {active(tracer.SessionInfo{MaxRSS: 100}), []look{
			{1 * second, Usage{RSS: 100}, 0}, {2 * second, Usage{RSS: 101}, tracer.CauseMaxRSS},
		}},
		"idle from the first look": {active(tracer.SessionInfo{Idle: 5 * second}), []look{
			{100 * second, Usage{}, 0}, {104 * second, Usage{}, 0}, {105 * second, Usage{}, tracer.CauseIdle},
		}},
		"a birth is work": {active(tracer.SessionInfo{Idle: 5 * second}), []look{
			{1 * second, Usage{}, 0}, {5 * second, Usage{Births: 1}, 0}, {9 * second, Usage{Births: 1}, 0},
			{10 * second, Usage{Births: 1}, tracer.CauseIdle},
		}},
		"CPU is work once it adds up": {active(tracer.SessionInfo{Idle: 5 * second}), []look{
			{1 * second, Usage{}, 0}, {3 * second, Usage{CPU: second / 2}, 0}, {5 * second, Usage{CPU: second}, 0},
			{9 * second, Usage{CPU: second}, 0}, {10 * second, Usage{CPU: second}, tracer.CauseIdle},
		}},
		"a little CPU is none": {active(tracer.SessionInfo{Idle: 5 * second}), []look{
			{1 * second, Usage{}, 0}, {3 * second, Usage{CPU: second / 2}, 0}, {6 * second, Usage{CPU: second - 1}, tracer.CauseIdle},
		}},
		"CPU that is no longer counted hides no work": {active(tracer.SessionInfo{Idle: 5 * second}), []look{
			{1 * second, Usage{CPU: 100 * second}, 0}, {5 * second, Usage{CPU: 2 * second}, 0}, {6 * second, Usage{CPU: 3 * second}, 0},
			{11 * second, Usage{CPU: 3 * second}, tracer.CauseIdle},
		}},
		"what ends already is left alone": {tracer.SessionInfo{State: tracer.StateEnding, MaxRSS: 1, Idle: 1}, []look{
			{1 * second, Usage{RSS: 2}, 0}, {9 * second, Usage{RSS: 2}, 0},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var b Budget
			for _, l := range c.looks {
				if got := b.Exceeded(c.info, l.usage, l.at, second); got != l.want {
					t.Errorf("at %v: %q, want %q", l.at, got, l.want)
				}
			}
		})
	}
}

// A session is idle since its last work, and not while there is any that no look has taken in yet.
func TestBudgetIdle(t *testing.T) {
	var b Budget
	idle := func(at time.Duration, u Usage, want time.Duration) {
		t.Helper()
		if got := b.Idle(u, at, time.Second); got != want {
			t.Errorf("at %v with %+v: %v, want %v", at, u, got, want)
		}
	}
	idle(time.Hour, Usage{}, 0) // not looked at yet
	b.Exceeded(tracer.SessionInfo{State: tracer.StateActive}, Usage{Births: 1, CPU: time.Second}, time.Hour, time.Second)
	idle(2*time.Hour, Usage{Births: 1, CPU: 2*time.Second - 1}, time.Hour)
	idle(2*time.Hour, Usage{Births: 1, CPU: 2 * time.Second}, 0)
	idle(2*time.Hour, Usage{Births: 2, CPU: time.Second}, 0)
}
