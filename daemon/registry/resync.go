//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Cause is why there was a look out of turn.
type Cause string

const (
	CauseNone    Cause = ""        // the period's look
	CauseStart   Cause = "start"   // the daemon began
	CauseLost    Cause = "lost"    // events were lost
	CauseMisses  Cause = "misses"  // the kernel skipped programs
	CauseBirths  Cause = "births"  // a birth or death was reported by the second writer, or failed
	CauseMember  Cause = "member"  // the kernel has a member that the picture lacks
	CauseMoved   Cause = "moved"   // members changed their session
	CauseRequest Cause = "request" // a user asked
)

var Causes = [...]Cause{CauseStart, CauseLost, CauseMisses, CauseBirths, CauseMember, CauseMoved, CauseRequest}

// Resync is what one look brought.
type Resync struct {
	Cause          Cause
	Changes        []lineage.Change
	Added, Removed int // by the kernel's own reconcile
}

// doubt is a change that a look found and no event reported. The event may still be on
// its way: if it has not come after a pause, the change is reported as reconciled.
type doubt struct {
	lineage.Change
	at uint64 // of the look, boottime
}

// maxDoubts bounds what waits, as the readers' queues are bounded.
const maxDoubts = 16384

// repaired takes the result of a look.
func (r *Registry) repaired(done *Resync, now uint64, changes []lineage.Change) {
	done.Changes = changes
	if done.Cause != CauseNone {
		r.meter.Resyncs[done.Cause]++
		r.log.Debug().Str(logging.KeyCause, string(done.Cause)).Int(logging.KeyChanges, len(changes)).Msg("resynced")
	}
	if done.Cause == CauseStart && len(r.sessions) > 0 {
		// What happened while no daemon ran is unknown.
		r.view().publish(tracer.Event{Type: tracer.EventLost, Time: now})
	}
	for _, c := range changes {
		switch {
		case c.Session == 0 || c.Kind == lineage.Moved || r.canaries.find(c.Session) != nil:
		case len(r.doubts) == maxDoubts:
			r.untold++
		default:
			r.doubts = append(r.doubts, doubt{c, now})
		}
	}
	if len(r.doubts) > 0 {
		select {
		case r.doubted <- struct{}{}:
		default:
		}
	}
}

// settleDoubts reports to readers, as reconciled, what a look found and no event has
// reported since.
func (r *Registry) settleDoubts() {
	var told []tracer.Event
	for _, d := range r.doubts {
		n, ok := r.graph.Node(d.ID)
		if !ok {
			n = lineage.Node{ID: d.ID, Session: d.Session}
		}
		told = append(told, d.events(&n)...)
	}
	if r.untold > 0 {
		told = append(told, tracer.Event{Type: tracer.EventLost, Time: r.clock.Boottime(), Count: r.untold})
	}
	r.doubts, r.untold = nil, 0
	r.meter.told(told)
	r.view().publish(told...)
}

// events are those that should have been reported, without the fields that are unknown.
func (d *doubt) events(n *lineage.Node) (all []tracer.Event) {
	ev := tracer.Event{
		Time: d.at, Process: d.ID, Session: d.Session,
		Evidence: tracer.EvidenceReconciled, UID: n.UID, Cgroup: n.Cgroup,
	}
	copy(ev.Comm[:len(ev.Comm)-1], n.Comm)
	tell := func(t tracer.EventType) { ev.Type = t; all = append(all, ev) }
	switch d.Kind {
	case lineage.Found:
		if n.Reconciled {
			ev.Creator, ev.Parent = n.Creator, n.Parent
			tell(tracer.EventBirth)
		}
	case lineage.Reparented:
		for _, m := range n.Reparents {
			if m.Inferred && m.To == d.To {
				ev.From, ev.Parent = d.From, d.To
				tell(tracer.EventReparent)
				break
			}
		}
	case lineage.Vanished:
		if !n.StatusKnown {
			tell(tracer.EventExit)
		}
		if n.State == lineage.Exited && !n.Reaped {
			tell(tracer.EventReaped)
		}
	case lineage.Gone:
		if !n.Reaped {
			tell(tracer.EventReaped)
		}
	}
	return all
}
