//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/tracer"
)

// encoder makes documents of the live graph.
func (o *Registry) encoder() document.Encoder {
	return document.Encoder{Graph: o.graph, Clock: o.clock.Clock, Kernel: o.kernel}
}

// session is a session as c may read it.
func (o *Registry) session(s *Session, c access.Caller) api.Session {
	return o.encoder().Session(o.sessionRecord(s), c)
}

// sessionRecord copies what the encoder needs of a session.
func (o *Registry) sessionRecord(s *Session) *document.Session {
	d := &document.Session{
		Info: s.info, State: s.state(), Family: o.family(s.info.ID), For: s.For, Work: *o.work(s), Shared: s.Shared,
		Level: o.kernel.Features().Level, Mode: o.mode(), Degraded: o.degraded,
		CPU: s.cpu + s.cpuDead, RSS: s.rss, Zombies: s.zombies, Ports: s.ports(), RootDied: s.rootDied != 0,
	}
	if s.kept != nil {
		d.Kept = &document.Kept{Reason: s.kept.Reason, By: s.kept.By, Rule: s.kept.Rule}
	}
	if s.info.State == tracer.StateEnding && s.info.Deadline != 0 {
		left := int64(s.info.Deadline) - int64(o.clock.monotonic())
		d.Deadline = uint64(int64(o.clock.boottime()) + left)
	}
	if s.closed {
		d.Ended = s.emptyAt
		if s.report != nil {
			d.Verdict = s.report.Verdict
		}
	}
	return d
}

// state is what users see: a session is over with its receipt, not before.
func (s *Session) state() string {
	if s.info.State == tracer.StateEmpty && !s.closed {
		return tracer.StateCondemned.String()
	}
	return s.info.State.String()
}

// work is what a session has handed to brokers.
func (o *Registry) work(s *Session) *document.Work {
	w := &document.Work{Found: s.brought()}
	over := s.closed || s.info.State == tracer.StateEmpty
	for _, e := range s.Errands {
		if !e.Found && !e.Failed && !e.Inside {
			q := e.request()
			q.Over = over || !e.Kind.Later && e.Left != 0 && o.clock.boottime() > e.Left+uint64(settling)
			w.Open = append(w.Open, *q)
		}
	}
	w.Brought = w.Found
	if s.For != 0 {
		w.Brought = nil
		if origin := o.sessions[s.For]; origin != nil {
			w.Brought = origin.brought()
		}
	}
	return w
}

// brought are the processes that brokers started for the session.
func (s *Session) brought() []document.Found {
	all := make([]document.Found, len(s.Found))
	for i, a := range s.Found {
		all[i] = document.Found{
			Process: a.Process, Comm: a.Comm, Source: a.Source, Session: a.Session,
			Ends: a.Ends, Observed: a.Observed, Container: a.Container,
		}
		if a.Asked != nil {
			all[i].Request = a.Asked.request()
		}
	}
	return all
}

func (e *errand) request() *document.Request {
	return &document.Request{Broker: e.Kind.Name, Client: e.Client, Comm: e.Comm, UID: e.UID, Argv: e.Argv, Time: e.Asked}
}

// report is a session's receipt as c may read it: without a verdict while it is not
// over.
func (o *Registry) report(x *Session, c access.Caller) *api.Report {
	r := x.report
	if r == nil {
		r = x.receipt.Report(x.info, o.took(x), nil)
		r.EndedBy, r.State, r.WouldEnd = x.by(), x.state(), x.wouldEnd
		o.describe(r, x)
	}
	shown := *r
	shown.Brokered = o.encoder().Brokered(o.work(x), c)
	return document.ReadableReport(&shown, x.info.UID, c)
}

// describe adds to a receipt what the graph remembers, and the names of the processes
// that have to reap its zombies.
func (o *Registry) describe(r *api.Report, s *Session) {
	o.encoder().Outcomes(r, o.work(s))
	comms := make(map[api.Ref]string) // most zombies have the same reaper
	for i := range r.Zombies {
		z := r.Zombies[i].Reaper
		if _, known := comms[z.Ref]; !known {
			comms[z.Ref] = comm(o.kernel, o.proc, z.Ref)
		}
		z.Comm = comms[z.Ref]
	}
}
