//go:build linux

package enforcer

import (
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Usage is what the members of a session use together.
type Usage struct {
	RSS    uint64        // bytes, the sum over live members; shared pages count in each
	CPU    time.Duration // of live and dead members; less if some left, or an exit was lost
	Births uint64        // so far
}

// Budget checks the limits of one session that the kernel does not check: max_rss and
// idle. The zero value is a budget that has seen nothing yet.
type Budget struct {
	busy  Usage         // at the last activity
	since time.Duration // CLOCK_MONOTONIC of that, 0: not looked at yet
}

// Idle is for how long the session has been idle, given what its members use as of a look;
// 0: it is not, or that is not known yet. A session is idle while no member is born and all
// members together use less than idleCPU.
func (b *Budget) Idle(u Usage, now, idleCPU time.Duration) time.Duration {
	if b.since == 0 || u.Births != b.busy.Births || u.CPU-b.busy.CPU >= idleCPU {
		return 0
	}
	return now - b.since
}

// Exceeded returns the limit that the session exceeds now, [tracer.CauseNone] if none.
func (b *Budget) Exceeded(info tracer.SessionInfo, u Usage, now, idleCPU time.Duration) tracer.Cause {
	b.busy.CPU = min(b.busy.CPU, u.CPU)
	idle := b.Idle(u, now, idleCPU)
	if idle == 0 {
		b.busy, b.since = u, max(now, 1)
	}
	switch {
	case info.State != tracer.StateActive:
		return tracer.CauseNone
	case info.MaxRSS != 0 && u.RSS > info.MaxRSS:
		return tracer.CauseMaxRSS
	case info.Idle != 0 && idle >= info.Idle:
		return tracer.CauseIdle
	}
	return tracer.CauseNone
}
