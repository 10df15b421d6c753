//go:build linux

package daemon

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// resyncCause is why the kernel was looked at out of turn.
type resyncCause string

const (
	causeNone    resyncCause = ""        // the period's look
	causeStart   resyncCause = "start"   // the daemon began
	causeLost    resyncCause = "lost"    // events were lost
	causeMisses  resyncCause = "misses"  // the kernel skipped programs
	causeBirths  resyncCause = "births"  // a birth or death took another way, or failed
	causeMember  resyncCause = "member"  // the kernel has a member that the picture lacks
	causeMoved   resyncCause = "moved"   // members changed their session
	causeRequest resyncCause = "request" // somebody asked
)

var resyncCauses = [...]resyncCause{causeStart, causeLost, causeMisses, causeBirths, causeMember, causeMoved, causeRequest}

// maxFindings is how many changes a resync names.
const maxFindings = 1000

// resynced is what one look brought.
type resynced struct {
	cause          resyncCause
	changes        []lineage.Change
	added, removed int // by the kernel's own reconcile
}

// doubt is a change that a look brought and no event told. The event may be on
// its way still: it is told as reconciled when it did not come until later.
type doubt struct {
	lineage.Change
	at uint64 // of the look, boottime
}

// maxDoubts bounds what waits: as much as readers could be told of.
const maxDoubts = ringRecords / 2

// repaired takes what a look brought.
func (o *Registry) repaired(r *resynced, now uint64, changes []lineage.Change) {
	r.changes = changes
	if r.cause != causeNone {
		o.meter.resyncs[r.cause]++
		o.log.Debug().Str(logging.KeyCause, string(r.cause)).Int(logging.KeyChanges, len(changes)).Msg("resynced")
	}
	if r.cause == causeStart && len(o.sessions) > 0 {
		// What happened while no daemon ran is in nobody's memory.
		o.publish(tracer.Event{Type: tracer.EventLost, Time: now})
	}
	for _, c := range changes {
		switch {
		case c.Session == 0 || c.Kind == lineage.Moved || o.hides(c.Session) != nil:
		case len(o.doubts) == maxDoubts:
			o.untold++
		default:
			o.doubts = append(o.doubts, doubt{c, now})
		}
	}
	if len(o.doubts) > 0 {
		select {
		case o.doubted <- struct{}{}:
		default:
		}
	}
}

// settleDoubts tells readers, as reconciled, what a look brought and no event
// told since.
func (o *Registry) settleDoubts() {
	var told []tracer.Event
	for _, d := range o.doubts {
		n, ok := o.graph.Node(d.ID)
		if !ok {
			n = lineage.Node{ID: d.ID, Session: d.Session}
		}
		told = append(told, d.events(&n)...)
	}
	if o.untold > 0 {
		told = append(told, tracer.Event{Type: tracer.EventLost, Time: o.clock.boottime(), Count: o.untold})
	}
	o.doubts, o.untold = nil, 0
	o.meter.told(told)
	o.publish(told...)
}

// events are what should have been told, without what nobody knows.
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

// postResync looks at the kernel now.
func (s *server) postResync(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req struct{}
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	if d := access.Decide(c, access.Manage, access.Scope{}); !d.Allow {
		return s.refuse(c, access.Manage, "graph", d)
	}
	done, err := s.sampler.sample(causeRequest)
	if err != nil {
		return err
	}
	doc := done.document()
	if err := s.registry.do(func() { doc.Lost = s.registry.lost }); err != nil {
		return err
	}
	s.managed(c, "resync")
	return reply(w, http.StatusOK, doc)
}

// document is a resync on the wire.
func (r *resynced) document() *api.Resync {
	d := &api.Resync{
		Head: head("resync"), Cause: string(r.cause), Changes: len(r.changes),
		Added: r.added, Removed: r.removed, Items: []api.Finding{}, Truncated: len(r.changes) > maxFindings,
	}
	count := map[lineage.ChangeKind]*int{
		lineage.Found: &d.Found, lineage.Vanished: &d.Vanished, lineage.Gone: &d.Gone,
		lineage.Moved: &d.Moved, lineage.Reparented: &d.Reparented,
	}
	for _, c := range r.changes {
		*count[c.Kind]++
		if len(d.Items) == maxFindings {
			continue
		}
		f := api.Finding{Kind: c.Kind.String(), Process: document.Ref(c.ID), From: document.RefOrNil(c.From), To: document.RefOrNil(c.To)}
		if c.Session != 0 {
			f.Session = c.Session.String()
		}
		d.Items = append(d.Items, f)
	}
	return d
}
