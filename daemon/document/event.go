package document

import (
	"net/netip"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

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
	tracer.EventMoved:    api.EventMoved,
}

// Event converts an event and its number. It needs no graph, so that any goroutine may
// call it.
func Event(c Clock, seq uint64, e *tracer.Event, r Reader) api.Event {
	ev := api.Event{
		Head: api.Head{Kind: "event"}, Seq: api.U64(seq), TimeNS: api.U64(e.Time), Time: c.Wall(e.Time),
		Type: EventNames[e.Type], Session: word(e.Session),
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
	case tracer.EventExec:
		ev.Was, ev.SinceNS = was(e, r), api.U64(e.Before)
	case tracer.EventReparent:
		ev.From, ev.To = RefOrNil(e.From), RefOrNil(e.Parent)
	case tracer.EventStop, tracer.EventContinue:
		ev.Sent = Sender(c, e.Signal)
	case tracer.EventCrossing:
		ev.Crossing = crossing(e.Crossing)
	case tracer.EventMoved:
		ev.Moved = moved(e.Moved)
	case tracer.EventListen, tracer.EventUnlisten:
		ev.Port = listened(e.Address)
	case tracer.EventMark:
		ev.Call = mark(c, e)
	}
	ev.Process = process(c, e, r)
	return ev
}

func process(c Clock, e *tracer.Event, r Reader) *api.Process {
	p := &api.Process{
		Ref: Ref(e.Process), State: api.StateLive, Creator: RefOrNil(e.Creator), Parent: RefOrNil(e.Parent),
		Container: Container(e.Container), Evidence: evidence(e.Evidence,
			e.Source), Started: c.Wall(e.Process.Start),
		Session: word(e.Session),
	}
	looks(p, &e.Looks, e.Met || e.Type == tracer.EventBirth || e.Type == tracer.EventExec)
	if i := e.Image; i != nil {
		p.Exe, p.Argv = i.Exe, KnownArgv(p, i.Argv, r)
		p.ArgvTruncated = i.Truncated && p.Argv != nil
	}
	claims(c, p, e.Claim, e.Time)
	exited := e.Exited
	if e.Type == tracer.EventExit && exited == 0 {
		exited = e.Time
	}
	switch p.Exited = c.Wall(exited); {
	case e.Type == tracer.EventReaped:
		p.State = api.StateExited
	case exited != 0:
		p.State = api.StateZombie
	case e.Type != tracer.EventContinue:
		p.Stopped = Sender(c, e.Signal)
	}
	if e.StatusKnown || e.Type == tracer.EventExit && e.Evidence != tracer.EvidenceReconciled {
		p.ExitCode, p.Signal = Exit(e.ExitStatus)
		p.Killer = Killer(c, e.Process, p.Signal, e.Flags, e.Signal)
		p.CPUSeconds, p.RSSBytes = seconds(e.CPUTime), e.MaxRSS
	}
	return p
}

// was is a process before it executed another program; nil: what it was is not known.
func was(e *tracer.Event, r Reader) *api.Process {
	if e.Was == nil {
		return nil
	}
	p := &api.Process{Ref: Ref(e.Process), Comm: e.Was.Comm, Exe: e.Was.Exe,
		UID: new(int(e.WasUID)), Argv: r.Argv(e.WasUID, e.Was.Argv)}
	p.ArgvTruncated = e.Was.Truncated && p.Argv != nil
	return p
}

func mark(k Clock, e *tracer.Event) *api.Call {
	if e.Call == nil {
		return nil
	}
	call := Call(k, e.Call)
	call.Ended, call.Used = nil, nil
	if e.Used != nil {
		call.Used = used(*e.Used)
	}
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
