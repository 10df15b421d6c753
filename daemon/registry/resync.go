//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Cause is why there was a look out of turn.
type Cause string

const (
	CauseNone   Cause = ""       // the period's look
	CauseStart  Cause = "start"  // the daemon began
	CauseLost   Cause = "lost"   // events were lost
	CauseMisses Cause = "misses" // the kernel skipped programs
	CauseBirths Cause = "births" // a birth or death was reported by the second writer, or failed
	CauseMember Cause = "member" // the kernel has a member that the picture lacks
	CauseMoved  Cause = "moved"  // members changed their session
)

var Causes = [...]Cause{CauseStart, CauseLost, CauseMisses, CauseBirths, CauseMember, CauseMoved}

type Resync struct {
	Cause          Cause
	Changes        []lineage.Change
	Added, Removed int // by the kernel's own reconcile
}

// maxDoubts bounds what waits, as the readers' queues are bounded.
const maxDoubts = 16384

// doubts are changes that a look found and no event reported. Their events may still be on
// their way: if they have not come after a pause, the changes are reported as reconciled.
type doubts struct {
	all     []doubt
	dropped uint64        // there was no room
	some    chan struct{} // asks for the pause
}

type doubt struct {
	lineage.Change
	at uint64 // of the look, boottime
}

func (d *doubts) add(c lineage.Change, at uint64) {
	if len(d.all) == maxDoubts {
		d.dropped++
		return
	}
	d.all = append(d.all, doubt{c, at})
	system.Offer(d.some, struct{}{})
}

// repaired takes the result of a look.
func (p *sampler) repaired(done *Resync, now uint64, changes []lineage.Change) {
	r := p.registry
	done.Changes = changes
	if done.Cause != CauseNone {
		r.counts.meter.Resyncs[done.Cause]++
		r.o.Log.Debug().Str(system.KeyCause, string(done.Cause)).Int(system.KeyChanges,
			len(changes)).Msg("resynced")
	}
	if done.Cause == CauseStart && len(r.sessions) > 0 {
		// What happened while no daemon ran is unknown.
		r.view().publish(tracer.Event{Type: tracer.EventLost, Time: now})
	}
	for _, c := range changes {
		if c.Session != 0 && c.Kind != lineage.Moved && r.canaries.find(c.Session) == nil {
			r.doubts.add(c, now)
		}
	}
}

// settleDoubts reports to readers, as reconciled, what a look found and no event has
// reported since.
func (p *sampler) settleDoubts() {
	r := p.registry
	var missed []tracer.Event
	for _, d := range r.doubts.all {
		n, ok := r.graph.Node(d.ID)
		if !ok {
			n = lineage.Node{ID: d.ID, Session: d.Session}
		}
		missed = append(missed, missedEvents(&d.Change, &n, d.at)...)
	}
	for i := range missed {
		le := eventOf(&missed[i])
		r.complete(&missed[i], &le)
	}
	if n := r.doubts.dropped; n > 0 {
		missed = append(missed, tracer.Event{Type: tracer.EventLost, Time: r.o.Clock.Boottime(), Count: n})
	}
	r.doubts.all, r.doubts.dropped = nil, 0
	r.counts.meter.published(missed)
	r.view().publish(missed...)
}
