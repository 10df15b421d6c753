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

// Exceeded returns the limit that the session exceeds now, [tracer.CauseNone] if none.
// A session is idle if, for the whole of its idle limit, no member is born and all
// members together use less than idleCPU.
func (b *Budget) Exceeded(info tracer.SessionInfo, u Usage, now, idleCPU time.Duration) tracer.Cause {
	b.busy.CPU = min(b.busy.CPU, u.CPU)
	if b.since == 0 || u.Births != b.busy.Births || u.CPU-b.busy.CPU >= idleCPU {
		b.busy, b.since = u, max(now, 1)
	}
	switch {
	case info.State != tracer.StateActive:
		return tracer.CauseNone
	case info.MaxRSS != 0 && u.RSS > info.MaxRSS:
		return tracer.CauseMaxRSS
	case info.Idle != 0 && now-b.since >= info.Idle:
		return tracer.CauseIdle
	}
	return tracer.CauseNone
}
