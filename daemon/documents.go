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
		Info: s.info, State: s.state(), Family: o.family(s.info.ID),
		Level: o.kernel.Features().Level, Degraded: o.degraded,
		CPU: s.cpu + s.cpuDead, RSS: s.rss, Zombies: s.zombies, Ports: s.ports(), RootDied: s.rootDied != 0,
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
	for _, h := range o.hooks {
		if h.Describe != nil {
			h.Describe(View{o}, s, d)
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

// report is a session's receipt as c may read it: without a verdict while it is not
// over.
func (o *Registry) report(x *Session, c access.Caller) *api.Report {
	r, record := x.report, o.sessionRecord(x)
	if r == nil {
		r = x.receipt.Report(x.info, o.took(x), nil)
		r.EndedBy, r.State = x.by(), x.state()
		o.describe(r, record)
	}
	shown := *r
	shown.Brokered = o.encoder().Brokered(&record.Work, c)
	return document.ReadableReport(&shown, x.info.UID, c)
}

// describe adds to a receipt what the graph remembers, what the policy would have
// ended, and the names of the processes that have to reap its zombies.
func (o *Registry) describe(r *api.Report, record *document.Session) {
	r.WouldEnd = record.WouldEnd
	o.encoder().Outcomes(r, &record.Work)
	comms := make(map[api.Ref]string) // most zombies have the same reaper
	for i := range r.Zombies {
		z := r.Zombies[i].Reaper
		if _, known := comms[z.Ref]; !known {
			comms[z.Ref] = comm(o.kernel, o.proc, z.Ref)
		}
		z.Comm = comms[z.Ref]
	}
}
