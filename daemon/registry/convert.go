//go:build linux

package registry

import (
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// eventOf is a kernel event as the graph takes it. Its texts alias those of ev.
func eventOf(ev *tracer.Event) lineage.Event {
	return lineage.Event{
		Type: types[ev.Type], Time: ev.Time, ID: ev.Process, Session: ev.Session,
		Evidence: ev.Evidence, Source: uint8(ev.Source), Creator: ev.Creator, Parent: ev.Parent,
		From: ev.From, Looks: ev.Looks,
		Exe: ev.Filename, Argv: ev.Argv, ArgvTruncated: ev.ArgvTruncated,
		Status: ev.ExitStatus, Flags: uint32(ev.Flags), CPUTime: ev.CPUTime, MaxRSS: ev.MaxRSS,
		Signal: ev.Signal, Claim: ev.Claim,
	}
}

var types = [...]lineage.EventType{
	tracer.EventBirth:    lineage.Birth,
	tracer.EventExec:     lineage.Exec,
	tracer.EventExit:     lineage.Exit,
	tracer.EventReparent: lineage.Reparent,
	tracer.EventReaped:   lineage.Reaped,
	tracer.EventLost:     0,
	tracer.EventTrace:    lineage.Claimed,
	tracer.EventStop:     lineage.Stop,
	tracer.EventContinue: lineage.Continue,
	tracer.EventCrossing: 0, // the receiver may be in no session
	tracer.EventMoved:    0, // a look tells the graph
}

func seenOf(p *tracer.Process) lineage.Seen {
	return lineage.Seen{
		ID: p.Identity, Session: p.Session, Since: p.Since,
		Evidence: p.Evidence, Source: uint8(p.Source), Creator: p.Creator, Parent: p.Parent,
		Looks: p.Looks, CPUTime: p.CPUTime, RSS: p.RSS,
		Dead: p.Dead, Zombie: p.Zombie, Stopped: p.Stopped,
	}
}

// missedEvents is the events that should have reported a change that a look found at that boottime, without
// the fields that are unknown. An event that has come since is left out, as the graph's node shows.
func missedEvents(c *lineage.Change, n *lineage.Node, at uint64) (all []tracer.Event) {
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
