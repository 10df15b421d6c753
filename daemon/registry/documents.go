//go:build linux

package registry

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

func (v View) Encoder() document.Encoder {
	return document.Encoder{Graph: v.r.graph, Clock: v.r.o.Clock.Clock, Kernel: v.r.o.Kernel}
}

func (v View) Document(s *Session, c access.Caller) api.Session {
	return v.Encoder().Session(v.Record(s), c)
}

func (v View) Record(s *Session) *document.Session {
	used := v.Usage(s)
	d := &document.Session{
		Info: s.told(), State: s.State(), Family: v.Family(s.info.ID),
		Level: v.r.o.Kernel.Features().Level, Degraded: v.r.counts.degraded,
		Joined: s.joined, Used: document.Used{CPU: used.CPU, RSS: used.RSS},
		Zombies: s.zombies, LeftOver: s.LeftOver(),
	}
	if s.info.State == tracer.StateEnding && s.info.Deadline != 0 {
		left := int64(s.info.Deadline) - int64(v.r.o.Clock.Monotonic())
		d.Deadline = uint64(int64(v.r.o.Clock.Boottime()) + left)
	}
	d.Paused = v.Paused(s.info.ID)
	for _, id := range d.Family {
		if in := v.r.sessions[id]; in != nil {
			v.stirring(in, d)
			d.Used.Event = max(d.Used.Event, in.lastEvent)
		}
	}
	if s.Active() && d.Paused == 0 {
		d.Used.Idle = time.Duration(v.r.o.Clock.Boottime() - min(s.info.Created, v.r.o.Clock.Boottime()))
	}
	if s.closed {
		d.Ended = s.emptyAt
		if s.report != nil {
			d.Verdict = s.report.Verdict
		}
	}
	for _, h := range v.r.hooks {
		if h.Describe != nil {
			h.Describe(v, s, d)
		}
	}
	return d
}

// stirring adds what runs of a paused session, itself or nested, and who continued it last.
func (v View) stirring(in *Session, d *document.Session) {
	if d.Paused == 0 {
		return
	}
	c := &d.Continued
	c.Running += v.r.o.Enforcer.Running(in.info.ID)
	if by := in.continued; by != nil && by.Time >= d.Paused && (c.By == nil || by.Time > c.By.Time) {
		c.By = by
		if v.r.o.Clock.Boottime()-by.Time < uint64(time.Second) {
			c.Running = max(c.Running, 1) // a hook may have stopped it again before the daemon's look
		}
	}
}

// State is what users see: a session has ended when its receipt is written, not before.
func (s *Session) State() api.SessionState {
	if s.info.State == tracer.StateEmpty && !s.closed {
		return api.StateCondemned
	}
	return api.SessionState(s.info.State.String())
}

// Report is a session's receipt as c may read it: without a verdict until the session
// has ended.
func (v View) Report(x *Session, c access.Caller) *api.Report {
	r, record := x.report, v.Record(x)
	if r == nil {
		r = x.receipt.Report(x.told(), x.joined, v.r.took(x), nil)
		r.EndedBy, r.State = x.by(), x.State()
		v.describe(r, x, record)
	}
	shown := *r
	shown.Delegated = v.Encoder().Delegated(&record.Work, c)
	return document.ReadableReport(&shown, x.info.UID, c)
}

// describe adds to a receipt what the graph remembers, how the root exited, what the policy would have
// ended, and the names of the processes that have to reap its zombies.
func (v View) describe(r *api.Report, s *Session, record *document.Session) {
	r.WouldEnd = record.Policy.WouldEnd
	r.Root = v.Encoder().Death(record, v.r.counts.lost > s.lost)
	v.Encoder().Outcomes(r)
	comms := make(map[api.Ref]string) // most zombies have the same reaper
	for i := range r.Zombies {
		z := r.Zombies[i].Reaper
		if _, known := comms[z.Ref]; !known {
			comms[z.Ref] = Comm(v.r.o.Kernel, v.r.o.Proc, z.Ref)
		}
		z.Comm = comms[z.Ref]
	}
}

func (v View) Refresh(s *Session) {
	if s.closed {
		return
	}
	if info, err := v.r.o.Kernel.Session(s.info.ID); err == nil && info.ID == s.info.ID {
		s.update(info)
	}
}

// Comm is the name of a process that may not be a member: everyone may read the PID and
// command of every process in /proc. It is "" if the process is gone, or if another
// process has its PID by now.
func Comm(k document.Kernel, proc procfs.FS, ref api.Ref) string {
	st, err := proc.Status(uint32(ref.PID))
	if err != nil {
		return ""
	}
	id := document.ID(ref)
	if now, err := k.Identify(id.PID); err == nil && id.Start != 0 && now != id {
		return ""
	}
	return st.Name
}
