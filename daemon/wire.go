//go:build linux

package daemon

import (
	"syscall"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// graphEvent is a kernel event as the graph takes it. Its texts alias ev.
func graphEvent(ev *tracer.Event) lineage.Event {
	return lineage.Event{
		Type: graphTypes[ev.Type], Time: ev.Time, ID: ev.Process, Session: ev.Session,
		Evidence: lineage.Evidence(ev.Evidence), Source: uint8(ev.Source), Creator: ev.Creator, Parent: ev.Parent,
		From: ev.From, Comm: ev.Comm[:], UID: ev.UID, Cgroup: ev.Cgroup,
		Exe: ev.Filename, Argv: ev.Argv, ArgvTruncated: ev.ArgvTruncated,
		Status: ev.ExitStatus, Flags: uint32(ev.Flags), CPUTime: ev.CPUTime, MaxRSS: ev.MaxRSS,
	}
}

var graphTypes = [...]lineage.EventType{
	tracer.EventBirth:    lineage.Birth,
	tracer.EventExec:     lineage.Exec,
	tracer.EventExit:     lineage.Exit,
	tracer.EventReparent: lineage.Reparent,
	tracer.EventReaped:   lineage.Reaped,
	tracer.EventLost:     0,
}

// graphSeen is one process of a snapshot; comm must outlive it.
func graphSeen(p *tracer.Process, comm []byte) lineage.Seen {
	return lineage.Seen{
		ID: p.Identity, Session: p.Session, Since: p.Since,
		Evidence: lineage.Evidence(p.Evidence), Source: uint8(p.Source), Creator: p.Creator, Parent: p.Parent,
		Comm: comm, UID: p.UID, Cgroup: p.Cgroup, CPUTime: p.CPUTime, RSS: p.RSS,
		Dead: p.Dead, Zombie: p.Zombie,
	}
}

func head(kind string) api.Head { return api.Head{Schema: api.Schema, Kind: kind} }

func refOf(id lineage.ID) *api.Ref {
	if id.PID == 0 {
		return nil
	}
	r := enforcer.Ref(id)
	return &r
}

// process is a node on the wire. argv of another uid's process is for root
// only.
func (o *owner) process(n *lineage.Node, c caller) api.Process {
	uid := int(n.UID)
	p := api.Process{
		Ref:   enforcer.Ref(n.ID),
		Comm:  n.Comm,
		Exe:   n.Exe,
		State: n.State.String(),
		UID:   &uid, Creator: refOf(n.Creator), Parent: refOf(n.Parent),
		Orphan:     n.Orphan,
		CPUSeconds: seconds(n.CPUTime),
		RSSBytes:   n.RSS,
		Started:    o.clock.wall(n.ID.Start),
		Exited:     o.clock.wall(n.Exited),
		Evidence:   evidence(n.Evidence, n.Source),
	}
	if n.State == lineage.Unknown {
		p.State = ""
	}
	if n.Ghost {
		p.UID = nil
	}
	if n.Session != 0 {
		p.Session = n.Session.String()
	}
	if c.mayReadArgv(n.UID) {
		p.Argv, p.ArgvTruncated = n.Argv, n.ArgvTruncated
	}
	if n.StatusKnown {
		p.ExitCode, p.Signal = exitOf(n.Status)
	}
	return p
}

func (c caller) mayReadArgv(uid uint32) bool {
	return c.uid == uid || c.uid == 0 && c.member == 0
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

// exitOf splits a wait status.
func exitOf(status uint32) (code *int, signal string) {
	w := syscall.WaitStatus(status)
	if w.Signaled() {
		return nil, unix.SignalName(w.Signal())
	}
	c := w.ExitStatus()
	return &c, ""
}

func evidence(e lineage.Evidence, source uint8) *api.Evidence {
	if e == lineage.NoEvidence {
		return nil
	}
	v := &api.Evidence{Kind: tracer.Evidence(e).String(), Source: tracer.Source(source).String(), Confidence: "strong"}
	switch {
	case e == lineage.Reconciled:
		v.Source = "iterator"
	case !tracer.Source(source).Strong():
		v.Confidence = "weak"
	}
	return v
}

// session is a session on the wire.
func (o *owner) session(s *session, c caller) api.Session {
	info := &s.info
	d := api.Session{
		ID: info.ID.String(), Name: info.Name, UID: int(info.UID), State: s.state(),
		Live: int(max(info.Live, 0)), Peak: int(info.Peak), Forks: int(info.Forks), Zombies: s.zombies,
		CPUSeconds: seconds(uint64(s.cpu + s.cpuDead)),
		Started:    o.clock.wall(info.Created), EndReason: info.Cause.String(), Kept: info.Kept,
		GraceSeconds: info.Grace.Seconds(), Level: o.kernel.Features().Level, Mode: o.mode(),
		Evidence: tracer.EvidenceRoot.String(), Degraded: o.degraded,
	}
	if info.Rule != 0 {
		d.Rule = info.Name
	}
	d.Brokered, d.Shared = o.brokered(s, c), s.Shared
	if s.For != 0 {
		d.BrokeredBy, d.Evidence = s.For.String(), tracer.EvidenceAdopted.String()
	}
	if s.kept != nil {
		d.Reason, d.KeptBy, d.KeepRule = s.kept.Reason, s.kept.By, s.kept.Rule
	}
	if info.Kept && info.Expires != 0 {
		d.Until = o.clock.wall(info.Expires)
	}
	if info.Owner.PID != 0 {
		d.Owner = refOf(info.Owner)
	}
	if info.Parent != 0 {
		d.Parent = info.Parent.String()
	}
	if n, ok := o.graph.Node(info.Root); ok {
		p := o.process(&n, c)
		d.Root = &p
	} else {
		d.Root = &api.Process{Ref: enforcer.Ref(info.Root)}
	}
	if s.closed {
		d.Ended = o.clock.wall(s.emptyAt)
		if s.report != nil {
			d.Verdict = s.report.Verdict
		}
		return d
	}
	if info.Live > 0 || info.Dying > 0 { // what was seen last is nobody's else
		d.Ports, d.RSSBytes = s.ports(), s.rss
	}
	for _, id := range o.family(info.ID) {
		d.Orphans += o.graph.Count(id).Orphans
	}
	if s.rootDied != 0 {
		d.Leftovers = d.Live
	}
	if info.State == tracer.StateEnding && info.Deadline != 0 {
		left := int64(info.Deadline) - int64(o.clock.monotonic())
		d.Deadline = o.clock.wall(uint64(int64(o.clock.boottime()) + left))
	}
	return d
}

// state is what people see: a session is over with its receipt, not before.
func (s *session) state() string {
	if s.info.State == tracer.StateEmpty && !s.closed {
		return tracer.StateCondemned.String()
	}
	return s.info.State.String()
}

var eventNames = [...]string{
	tracer.EventBirth:    "fork",
	tracer.EventExec:     "exec",
	tracer.EventExit:     "exit",
	tracer.EventReparent: "reparent",
	tracer.EventReaped:   "reaped",
	tracer.EventSession:  "session",
	tracer.EventLost:     "lost",
}

// event is a record on the wire. It needs only the clock, so that it can be
// made outside the owner's goroutine.
func (c clock) event(r *record, who caller) api.Event {
	ev := api.Event{
		Head: api.Head{Kind: "event"}, Seq: api.U64(r.seq), TimeNS: api.U64(r.Time), Time: c.wall(r.Time),
		Type: eventNames[r.Type],
	}
	if r.Session != 0 {
		ev.Session = r.Session.String()
	}
	switch r.Type {
	case tracer.EventLost:
		ev.Count, ev.Where, ev.SinceNS, ev.UntilNS = r.Count, "ring", api.U64(r.Since), api.U64(r.Time)
		if r.Count == 0 {
			ev.Where = "restart"
		}
		return ev
	case tracer.EventSession:
		ev.State, ev.Reason = r.State.String(), r.Cause.String()
		return ev
	}
	p := &api.Process{Ref: enforcer.Ref(r.Process), Comm: r.Comm.String(), Session: ev.Session}
	ev.Process = p
	reconciled := r.Evidence == tracer.EvidenceReconciled
	if reconciled {
		p.Evidence = evidence(lineage.Reconciled, 0)
	}
	switch r.Type {
	case tracer.EventBirth:
		p.State, p.Creator, p.Parent = api.StateLive, refOf(r.Creator), refOf(r.Parent)
		p.Evidence, p.Started = evidence(lineage.Evidence(r.Evidence), uint8(r.Source)), c.wall(r.Process.Start)
		p.UID = intPtr(r.UID)
	case tracer.EventExec:
		p.State, p.Exe, p.UID = api.StateLive, string(r.Filename), intPtr(r.UID)
		if who.mayReadArgv(r.UID) {
			p.Argv, p.ArgvTruncated = procfs.SplitArgv(r.Argv), r.ArgvTruncated
		}
	case tracer.EventExit:
		p.State, p.Exited = api.StateZombie, c.wall(r.Time)
		if reconciled {
			break // nobody knows how
		}
		p.ExitCode, p.Signal = exitOf(r.ExitStatus)
		p.CPUSeconds, p.RSSBytes = seconds(r.CPUTime), r.MaxRSS
	case tracer.EventReparent:
		ev.From, ev.To = refOf(r.From), refOf(r.Parent)
	case tracer.EventReaped:
		p.State = api.StateExited
	}
	return ev
}

func intPtr(n uint32) *int { i := int(n); return &i }
