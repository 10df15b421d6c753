//go:build linux

package enforcer

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// crowdPause is the longest pause after which a session that is empty waits for others to be.
const crowdPause = 32 * time.Millisecond

// sweep looks at each end, after the passes that any of them needs: a pass serves all
// sessions. Passes are repeated while each meets members that were not signalled before.
// It terminates: there are at most maxPasses, and the pause between looks grows.
func (e *Enforcer) sweep(looks []*ending, now time.Duration) {
	var due []*ending
	for _, x := range looks {
		if x.info, x.err = e.kernel.Session(x.id); x.err == nil && passDue(x, x.info, now) {
			due = append(due, x)
		}
	}
	if slices.ContainsFunc(due, (*ending).pauses) {
		e.count(now)
	}
	for n := 0; n < maxPasses && len(due) > 0; n++ {
		e.enter(due)
		pass, err := e.kernel.Sentence()
		due = slices.DeleteFunc(due, func(x *ending) (over bool) {
			if x.err = err; err == nil {
				x.swept, x.sent = true, pass.Sent > 0
				x.info, x.err = e.kernel.Session(x.id)
			}
			return x.err != nil || x.info.Live == 0 || x.pauses() || !pass.More && pass.Sent == 0
		})
	}
	dying := slices.ContainsFunc(looks, func(x *ending) bool { return x.info.State == tracer.StateCondemned && x.info.Live > 0 })
	for _, x := range looks {
		e.settle(x, dying && x.pause <= crowdPause)
	}
}

// settle settles a session that was read, which walks all processes, unless members are still to die, of this
// one or, for a moment, of others: they need the CPU to exit. If its counts stand still they may be wrong:
// then it is settled, too.
func (e *Enforcer) settle(x *ending, later bool) {
	if x.err == nil && (x.info.Live == 0 && !later || x.still) {
		x.info, x.err = e.kernel.Settle(x.id)
	}
}

// enter enters members whose birth was missed, before the first signal to a session.
func (e *Enforcer) enter(due []*ending) {
	first, unentered := false, false
	for _, x := range due {
		first = first || !x.swept
		unentered = unentered || x.info.Unentered > x.unentered
		x.unentered = x.info.Unentered
	}
	if first || unentered {
		e.reconcile(unentered)
	}
}

// reconcile enters members whose birth was missed, if any was missed since the last
// time, or if the session has children that could not be entered. Their session can be found
// only while their parents live, so it comes before the first signal. If it fails, the verdict
// says that births were missed.
func (e *Enforcer) reconcile(unentered bool) {
	now, err := e.kernel.MissedBirths()
	e.mu.Lock()
	defer e.mu.Unlock()
	missed := err == nil && now > e.missed
	if !missed && !unentered {
		return
	}
	if _, _, err := e.kernel.Reconcile(); err == nil && missed {
		e.missed = now
	}
}
