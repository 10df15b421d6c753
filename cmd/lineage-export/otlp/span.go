package otlp

import (
	"cmp"
	"path"
	"strconv"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

const (
	sessionName = "lineage.session" // of the span of a session
	maxEvents   = 32                // of one span
)

// spansOf are the spans that a record ends.
func spansOf(r *follow.Record) (all []*trace.Span) {
	p := r.Process()
	switch {
	case r.Kind == follow.End:
		return append(all, sessionSpan(r))
	case r.Kind == api.EventSession && r.Event.State != api.StateActive:
		all = append(all, moment(r, "lineage.session."+string(r.Event.State)))
	case p == nil || r.Kind == api.EventFork:
	case r.Kind == api.EventExit:
		all = append(all, processSpan(r))
	case r.Kind != api.EventExec:
		all = append(all, moment(r, "lineage."+string(r.Kind)))
	case r.Event.Was != nil && r.Event.SinceNS != 0:
		all = append(all, replacedSpan(r))
	}
	return all
}

// span is a span at its place in a trace.
func span(at follow.Span, name string, from, to time.Time) *trace.Span {
	s := &trace.Span{TraceId: at.TraceID[:], SpanId: at.SpanID[:], Kind: trace.Span_SPAN_KIND_INTERNAL,
		Name: valid(name), Flags: 1,
		StartTimeUnixNano: nanos(from), EndTimeUnixNano: max(nanos(to), nanos(from))}
	if at.Parent != (follow.SpanID{}) {
		s.ParentSpanId = at.Parent[:]
	}
	return s
}

// below is the place of a span of what a record reports, below that of its process or session.
func below(r *follow.Record) follow.Span {
	at := r.Span()
	at.Parent, at.SpanID = at.SpanID, follow.SpanOf(r)
	return at
}

// moment is what happened to a process or a session that goes on: a receiver cannot add to a span later.
func moment(r *follow.Record, name string) *trace.Span {
	s := span(below(r), name, r.Time, r.Time)
	s.Attributes = eventAttributes(r)
	return s
}

func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(t.UnixNano(), 0))
}

// Where an attribute is added, a comment at the end of the line says what it is: the table of
// docs/TELEMETRY.md is made of them. Those without one are as in OpenTelemetry's conventions.

// processSpan is the span of a process that has exited, by the convention for the execution of programs.
func processSpan(r *follow.Record) *trace.Span {
	p := r.Process()
	began := r.Time
	if p.Started != nil {
		began = *p.Started
	}
	s := span(r.Span(), programName(p), began, r.Time)
	s.Attributes = processAttributes(r, p)
	switch {
	case p.Signal != "":
		s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: "killed by " + p.Signal}
		s.Attributes = attributes(s.Attributes).text("error.type", p.Signal) // the signal or the exit code; of a session its verdict
	case p.ExitCode != nil:
		s.Attributes = attributes(s.Attributes).number("process.exit.code", int64(*p.ExitCode))
		if *p.ExitCode != 0 {
			s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR,
				Message: "exit code " + strconv.Itoa(*p.ExitCode)}
			s.Attributes = attributes(s.Attributes).text("error.type", strconv.Itoa(*p.ExitCode))
		}
	}
	if p.Signal != "" || p.Killer != nil {
		killer := cmp.Or(p.Killer, &api.Sender{Signal: p.Signal})
		s.Events = append(s.Events, &trace.Span_Event{
			TimeUnixNano: nanos(r.Time), Name: "lineage.signal",
			Attributes: attributes{}.signal(killer),
		})
	}
	return s
}

// replacedSpan is the span of a program that its process replaced by an exec, below that of the process.
func replacedSpan(r *follow.Record) *trace.Span {
	e := r.Event
	s := span(below(r), programName(e.Was), r.Time.Add(-time.Duration(e.TimeNS-min(e.SinceNS,
		e.TimeNS))), r.Time)
	s.Attributes = append(processAttributes(r, e.Was), attributes{}.truth("lineage.process.replaced", true)...) // the program ended by an exec
	return s
}

// programName is the name of the file, or the kernel's name of the process.
func programName(p *api.Process) string {
	if p.Exe != "" {
		return path.Base(p.Exe)
	}
	return p.Comm
}

// processAttributes are those of the process of a record with what it ran, which runs has.
func processAttributes(r *follow.Record, runs *api.Process) attributes {
	p := r.Process()
	a := attributes{}.
		number("process.pid", int64(p.PID)).
		text("process.executable.name", programName(runs)).text("process.executable.path", runs.Exe).
		list("process.command_args", runs.Argv).
		text("lineage.session.id", p.Session).                                       // as the commands of lineage take it
		text("lineage.process.start_ns", strconv.FormatUint(uint64(p.StartNS), 10)). // with the PID its identity
		truth("lineage.process.command_args.truncated", runs.ArgvTruncated)          // the command line is longer
	if p.Started != nil {
		a = a.time("process.creation.time", *p.Started)
	}
	if runs.UID != nil {
		a = a.number("process.user.id", int64(*runs.UID))
	}
	if p.Creator != nil {
		a = a.number("lineage.process.creator.pid", int64(p.Creator.PID)) // the process that forked it
	}
	if p.Parent != nil {
		a = a.number("process.parent_pid", int64(p.Parent.PID))
	}
	if c := p.Container; c != nil {
		a = a.text("container.id", c.ID).text("k8s.pod.name",
			c.Pod).text("k8s.namespace.name", c.Namespace)
		if c.Pod == "" {
			a = a.text("container.name", c.Name)
		} else {
			a = a.text("k8s.container.name", c.Name)
		}
	}
	if p.Evidence != nil {
		a = a.text("lineage.evidence", p.Evidence.Kind) // why it is a member
	}
	if p.Trace != nil {
		a = a.truth("lineage.trace.claimed", true) // the trace is from a member's `TRACEPARENT`
	}
	if len(p.Calls) == 1 { // with several, it is unknown which one it belongs to
		a = a.text("gen_ai.tool.call.id", p.Calls[0].ID) // the tool call that started it, as the agent's hooks reported; absent if several calls were open
		a = a.text("gen_ai.tool.name", p.Calls[0].Tool)  // its tool
	}
	a = a.text("lineage.session.name", r.Session.Name) // its name, if it has one
	return a.text("gen_ai.agent.name", r.Session.Rule) // the agent rule of the policy that opened the session
}

// eventAttributes are those of what happened to a process or a session that goes on.
func eventAttributes(r *follow.Record) attributes {
	e := r.Event
	if e.Process == nil {
		return sessionAttributes(r.Session).text("lineage.session.end_reason", e.Reason) // why it ended, see [end reasons](REFERENCE.md#end-reasons)
	}
	a := processAttributes(r, e.Process)
	if e.From != nil {
		a = a.number("lineage.reparent.from_pid", int64(e.From.PID)) // of `lineage.reparent`: the parent before
	}
	if e.Port != nil {
		a = a.text("network.transport", "tcp").text("server.address",
			e.Port.Addr).number("server.port", int64(e.Port.Port))
	}
	return a.signal(e.Sent).crossing(e.Crossing)
}

// crossing adds a signal that left a guarded session, or was refused.
func (a attributes) crossing(x *api.Crossing) attributes {
	if x == nil {
		return a
	}
	a = a.text("lineage.signal", x.Signal).
		truth("lineage.signal.refused", x.Refused) // of `lineage.crossing`: it was not sent
	if p := x.To; p != nil {
		a = a.number("lineage.signal.receiver.pid", int64(p.PID)). // who it was sent to
										text("lineage.signal.receiver.comm", p.Comm).         // its name, which it chooses
										text("lineage.signal.receiver.session.id", p.Session) // its session, if it had one
		if p.UID != nil {
			a = a.number("lineage.signal.receiver.user.id", int64(*p.UID)) // its effective user
		}
	}
	return a
}

// signal adds a signal and who sent it.
func (a attributes) signal(s *api.Sender) attributes {
	if s == nil {
		return a
	}
	a = a.text("lineage.signal", s.Signal). // of `lineage.signal`, `lineage.stop`, `lineage.continue` and `lineage.crossing`: the signal
						text("lineage.signal.sender", s.Kind).      // the kind of its sender
						truth("lineage.signal.handled", s.Handled). // the process had a handler
						truth("lineage.signal.raised", s.Raised).   // … and later sent the same signal to itself
						truth("lineage.signal.passed", s.Passed)    // the session's owner got it first, and passed it on
	if p := s.Process; p != nil {
		a = a.number("lineage.signal.sender.pid", int64(p.PID)). // of a process
										text("lineage.signal.sender.comm", p.Comm).         // its name, which it chooses
										text("lineage.signal.sender.session.id", p.Session) // its session, if it had one
		if p.UID != nil {
			a = a.number("lineage.signal.sender.user.id", int64(*p.UID)) // its effective user
		}
	}
	return a
}

func sessionAttributes(d *follow.SessionInfo) attributes {
	a := attributes{}.text("lineage.session.id", d.ID).
		text("lineage.session.name", d.Name).text("gen_ai.agent.name", d.Rule).
		count("lineage.level", d.Level).                     // the session's guarantee level
		text("lineage.mode", d.Mode).                        // observe or enforce
		text("lineage.session.parent", d.Parent).            // the outer session
		text("lineage.session.delegated_by", d.DelegatedBy). // of a related session: the session that asked for the work
		truth("lineage.session.kept", d.Kept)                // it is a kept session
	if !d.Unknown {
		a = a.number("process.user.id", int64(d.UID))
	}
	if d.Root != nil {
		a = a.number("process.pid", int64(d.Root.PID))
	}
	return a
}

// sessionSpan is the span of a session that has ended, with its receipt.
func sessionSpan(r *follow.Record) *trace.Span {
	d := r.Session
	began := r.Time
	if d.Started != nil {
		began = *d.Started
	}
	s := span(d.Span, sessionName, began, *d.Ended)
	a := sessionAttributes(d).text("lineage.session.end_reason", d.EndReason)
	if p := r.Report; p != nil {
		a = a.text("lineage.session.verdict", string(p.Verdict)) // of its receipt, see [verdicts](REFERENCE.md#verdicts)
		a = a.count("lineage.session.started", p.Started)        // processes that ever started
		a = a.count("lineage.session.exited", p.Exited)          // processes that exited before the end
		a = a.count("lineage.session.killed", p.Killed)          // processes that needed SIGKILL
		a = a.count("lineage.session.left", p.Left)              // processes that are still alive
		a = a.text("lineage.session.audit_head", p.AuditHead)    // number and hash of the newest record of the audit log before this end's
		if p.Verdict != api.VerdictClean {
			s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR,
				Message: valid(string(p.Verdict) + ": " + p.VerdictWhy)}
			a = a.text("error.type", string(p.Verdict))
		}
		for i := range p.Processes {
			if len(s.Events) == maxEvents {
				s.DroppedEventsCount++
				continue
			}
			s.Events = append(s.Events, outcomeEvent(*d.Ended, &p.Processes[i]))
		}
	}
	s.Attributes = a
	return s
}

func outcomeEvent(at time.Time, o *api.Outcome) *trace.Span_Event {
	return &trace.Span_Event{TimeUnixNano: nanos(at), Name: "lineage.end", Attributes: attributes{}.
		number("process.pid", int64(o.PID)).text("process.executable.name", o.Comm).
		text("lineage.outcome", string(o.Outcome)). // of the event `lineage.end`: how the process ended
		text("lineage.outcome.why", o.Why).         // of the event `lineage.end`: why it is alive or kept
		truth("lineage.leftover", o.Leftover)}      // of the event `lineage.end`: it was alive when the root was gone, before the end began
}

// logOf is one line of a log, in the trace of its subject.
func logOf(r *follow.Record, l *follow.LogRecord) *logs.LogRecord {
	severity := logs.SeverityNumber(l.Severity)
	out := &logs.LogRecord{
		TimeUnixNano: nanos(r.Time), ObservedTimeUnixNano: nanos(r.Time),
		EventName:      "lineage." + string(r.Kind),
		SeverityNumber: severity, SeverityText: strings.TrimPrefix(severity.String(),
			"SEVERITY_NUMBER_"),
		Body: textValue(l.Line), Attributes: []*common.KeyValue{{Key: "ocsf.raw",
			Value: textValue(string(l.JSON))}},
	}
	if at := r.Span(); at.TraceID != (follow.TraceID{}) {
		out.TraceId, out.SpanId, out.Flags = at.TraceID[:], at.SpanID[:], 1
	}
	return out
}
