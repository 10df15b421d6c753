package document

import (
	"net/netip"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// EventNames are the types of events as documents name them.
var EventNames = [...]api.EventType{
	tracer.EventBirth:    api.EventFork,
	tracer.EventExec:     api.EventExec,
	tracer.EventExit:     api.EventExit,
	tracer.EventReparent: api.EventReparent,
	tracer.EventReaped:   api.EventReaped,
	tracer.EventSession:  api.EventSession,
	tracer.EventLost:     api.EventLost,
	tracer.EventListen:   api.EventListen,
	tracer.EventUnlisten: api.EventUnlisten,
	tracer.EventMark:     api.EventMark,
	tracer.EventTrace:    api.EventTrace,
	tracer.EventStop:     api.EventStop,
	tracer.EventContinue: api.EventContinue,
	tracer.EventCrossing: api.EventCrossing,
}

// Event converts an event and its number. It needs no graph, so that any goroutine may
// call it.
func Event(c Clock, seq uint64, e *tracer.Event, r Reader) api.Event {
	ev := api.Event{
		Head: api.Head{Kind: "event"}, Seq: api.U64(seq), TimeNS: api.U64(e.Time), Time: c.Wall(e.Time),
		Type: EventNames[e.Type],
	}
	if e.Session != 0 {
		ev.Session = e.Session.String()
	}
	switch e.Type {
	case tracer.EventLost:
		ev.Count, ev.Where, ev.SinceNS, ev.UntilNS = e.Count, "ring", api.U64(e.Since), api.U64(e.Time)
		if e.Count == 0 {
			ev.Where = "restart"
		}
		return ev
	case tracer.EventSession:
		ev.State, ev.Reason = api.SessionState(e.State.String()), e.Cause.String()
		return ev
	}
	p := &api.Process{Ref: Ref(e.Process), Comm: e.Comm.String(), Session: ev.Session}
	ev.Process = p
	if e.Type == tracer.EventMark {
		ev.Call = mark(c, e)
		return ev
	}
	claims(c, p, e.Claim)
	p.Container = Container(e.Container)
	reconciled := e.Evidence == tracer.EvidenceReconciled
	if reconciled {
		p.Evidence = evidence(lineage.Reconciled, 0)
	}
	switch e.Type {
	case tracer.EventBirth:
		p.State, p.Creator, p.Parent = api.StateLive, RefOrNil(e.Creator), RefOrNil(e.Parent)
		p.Evidence, p.Started = evidence(e.Evidence, e.Source), c.Wall(e.Process.Start)
		p.UID = new(int(e.UID))
	case tracer.EventExec:
		p.State, p.Exe, p.UID = api.StateLive, string(e.Filename), new(int(e.UID))
		if p.Argv = r.Argv(e.UID, e.Args()); p.Argv != nil {
			p.ArgvTruncated = e.ArgvTruncated
		}
	case tracer.EventExit:
		p.State, p.Exited = api.StateZombie, c.Wall(e.Time)
		if reconciled {
			break // how it exited is unknown
		}
		p.ExitCode, p.Signal = Exit(e.ExitStatus)
		p.Killer = Killer(c, e.Process, p.Signal, e.Flags, e.Signal)
		p.CPUSeconds, p.RSSBytes = seconds(e.CPUTime), e.MaxRSS
	case tracer.EventReparent:
		ev.From, ev.To = RefOrNil(e.From), RefOrNil(e.Parent)
	case tracer.EventReaped:
		p.State = api.StateExited
	case tracer.EventStop, tracer.EventContinue:
		ev.Sent = Sender(c, e.Signal)
	case tracer.EventCrossing:
		ev.Crossing = crossing(e.Crossing)
	case tracer.EventListen, tracer.EventUnlisten:
		ev.Port = listened(e.Address)
	}
	return ev
}

// mark is the call that a mark is about, as it was then.
func mark(k Clock, e *tracer.Event) *api.Call {
	if e.Claim == nil || len(e.Claim.Calls) != 1 {
		return nil // another version wrote it
	}
	call := Call(k, e.Claim.Calls[0])
	call.Ended = nil
	if e.Since < e.Time {
		call.Ended = k.Wall(e.Time)
	}
	return &call
}

// listened is where a process listens, nil if the kernel could not tell.
func listened(at netip.AddrPort) *api.Port {
	if !at.IsValid() {
		return nil
	}
	p := &api.Port{Proto: "tcp", Addr: at.Addr().String(), Port: int(at.Port())}
	if at.Addr().Is6() {
		p.Proto = "tcp6"
	}
	return p
}
