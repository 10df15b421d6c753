//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// MissedEvents is the events that should have reported a change that a look found at that boottime, without
// the fields that are unknown. An event that has come since is left out, as the graph's node shows.
func MissedEvents(c *lineage.Change, n *lineage.Node, at uint64) (all []tracer.Event) {
	ev := tracer.Event{Time: at, Process: c.ID, Session: c.Session, Evidence: tracer.EvidenceReconciled}
	add := func(t tracer.EventType) { ev.Type = t; all = append(all, ev) }
	switch c.Kind {
	case lineage.Found:
		if n.Reconciled {
			add(tracer.EventBirth)
		}
	case lineage.Reparented:
		for _, m := range n.Reparents {
			if m.Inferred && m.To == c.To {
				ev.From, ev.Parent = c.From, c.To
				add(tracer.EventReparent)
				break
			}
		}
	case lineage.Vanished:
		if !n.StatusKnown {
			add(tracer.EventExit)
		}
		if n.State == lineage.Exited && !n.Reaped {
			add(tracer.EventReaped)
		}
	case lineage.Gone:
		if !n.Reaped {
			add(tracer.EventReaped)
		}
	}
	return all
}
