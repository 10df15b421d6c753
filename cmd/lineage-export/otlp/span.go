package otlp

import (
	"cmp"
	"iter"
	"path"
	"strconv"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// sessionName is the name of the span of a session.
const sessionName = "lineage.session"

// spansOf are the spans that a record ends.
func spansOf(r *record.Record) iter.Seq[*trace.Span] {
	return func(yield func(*trace.Span) bool) {
		for _, run := range r.Ended {
			if !yield(imageSpan(r, run)) {
				return
			}
		}
		switch {
		case r.Kind == record.End:
			yield(sessionSpan(r))
		case r.Kind == record.Open && r.Process == nil:
			yield(openSession(r))
		}
	}
}

// placed is a span at its place in a trace. A span that closes an opened one is below it,
// because a receiver cannot change a span that it has.
func placed(at record.Span, closes bool, name string, from, to time.Time) *trace.Span {
	s := &trace.Span{TraceId: at.TraceID[:], SpanId: at.SpanID[:], Kind: trace.Span_SPAN_KIND_INTERNAL, Name: valid(name), Flags: 1,
		StartTimeUnixNano: nanos(from), EndTimeUnixNano: max(nanos(to), nanos(from))}
	switch {
	case closes:
		id := record.ClosingSpan(at.SpanID)
		s.SpanId, s.ParentSpanId = id[:], at.SpanID[:]
	case at.Parent != record.SpanID{}:
		s.ParentSpanId = at.Parent[:]
	}
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

// imageSpan is the span of a program, by the convention for the execution of programs.
func imageSpan(r *record.Record, run *record.Run) *trace.Span {
	i := run.Image
	s := placed(run.Span, run.Opened, programName(i), i.Began, run.Until)
	s.Attributes = imageAttributes(r, run)
	if run.Running {
		return s
	}
	replaced := r.Kind == record.Exec
	switch {
	case replaced:
		s.Attributes = append(s.Attributes, attributes{}.truth("lineage.process.replaced", true)...) // the program ended by an exec
	case run.Signal != "":
		s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: "killed by " + run.Signal}
		s.Attributes = append(s.Attributes, attributes{}.text("error.type", run.Signal)...) // the signal or the exit code; of a session its verdict
	case run.ExitCode != nil:
		s.Attributes = append(s.Attributes, attributes{}.number("process.exit.code", int64(*run.ExitCode))...)
		if *run.ExitCode != 0 {
			s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: "exit code " + strconv.Itoa(*run.ExitCode)}
			s.Attributes = append(s.Attributes, attributes{}.text("error.type", strconv.Itoa(*run.ExitCode))...)
		}
	}
	s.DroppedEventsCount = uint32(run.Dropped)
	for k := range run.Marks {
		addEvent(s, spanEvent(&run.Marks[k]))
	}
	if run.Signal != "" || run.Killer != nil {
		killer := cmp.Or(run.Killer, &api.Sender{Signal: run.Signal})
		addEvent(s, &trace.Span_Event{TimeUnixNano: nanos(run.Until), Name: "lineage.signal", Attributes: attributes{}.signal(killer)})
	}
	return s
}

// addEvent adds an event, or counts it as dropped.
func addEvent(s *trace.Span, e *trace.Span_Event) {
	if len(s.Events) == record.MaxMarks {
		s.DroppedEventsCount++
		return
	}
	s.Events = append(s.Events, e)
}

// programName is the name of the file, or the kernel's name of the process.
func programName(i *record.Image) string {
	if i.Exe != "" {
		return path.Base(i.Exe)
	}
	return i.Comm
}

func imageAttributes(r *record.Record, run *record.Run) attributes {
	i := run.Image
	a := attributes{}.
		number("process.pid", int64(i.PID)).
		text("process.executable.name", programName(i)).text("process.executable.path", i.Exe).
		list("process.command_args", i.Argv).
		time("process.creation.time", run.Created).
		text("lineage.session.id", run.Session).                                     // as the commands of lineage take it
		text("lineage.process.start_ns", strconv.FormatUint(uint64(i.StartNS), 10)). // with the PID its identity
		truth("lineage.process.running", run.Running).                               // alive after a minute: the first of its two spans
		truth("lineage.process.forked", i.Forked).                                   // the copy of its creator, before an exec
		truth("lineage.process.command_args.truncated", i.ArgvTruncated)             // the command line is longer
	if i.UID != nil {
		a = a.number("process.user.id", int64(*i.UID))
	}
	if i.CreatorRef != nil {
		a = a.number("lineage.process.creator.pid", int64(i.CreatorRef.PID)) // the process that forked it
	}
	if p := r.Process; p != nil {
		if p.Parent != nil {
			a = a.number("process.parent_pid", int64(p.Parent.PID))
		}
		a = a.text("process.linux.cgroup", p.Cgroup)
		if c := p.Container; c != nil {
			a = a.text("container.id", c.ID).text("k8s.pod.name", c.Pod).text("k8s.namespace.name", c.Namespace)
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
	}
	if r.Session != nil {
		a = a.text("lineage.session.name", r.Session.Name) // its name, if it has one
		a = a.text("gen_ai.agent.name", r.Session.Rule)    // the agent rule of the policy that opened the session
	}
	return a
}

// spanEvent is an event of a process or a session other than its beginning and end.
func spanEvent(e *api.Event) *trace.Span_Event {
	ev := &trace.Span_Event{Name: "lineage." + string(e.Type)}
	if e.Time != nil {
		ev.TimeUnixNano = nanos(*e.Time)
	}
	a := attributes{}.text("lineage.session.state", string(e.State)) // of the event `lineage.session`: the new state
	a = a.text("lineage.session.end_reason", e.Reason)               // why it ended, see [end reasons](REFERENCE.md#end-reasons)
	if e.From != nil {
		a = a.number("lineage.reparent.from_pid", int64(e.From.PID)) // of the event `lineage.reparent`: the parent before
	}
	if e.To != nil {
		a = a.number("process.parent_pid", int64(e.To.PID))
	}
	if e.Port != nil {
		a = a.text("network.transport", "tcp").text("server.address", e.Port.Addr).number("server.port", int64(e.Port.Port))
	}
	ev.Attributes = a.signal(e.Sent).crossing(e.Crossing)
	return ev
}

// crossing adds a signal that left a guarded session, or was refused.
func (a attributes) crossing(x *api.Crossing) attributes {
	if x == nil {
		return a
	}
	a = a.text("lineage.signal", x.Signal).
		truth("lineage.signal.refused", x.Refused) // of the event `lineage.crossing`: it was not sent
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
	a = a.text("lineage.signal", s.Signal). // of the events `lineage.signal`, `lineage.stop`, `lineage.continue` and `lineage.crossing`: the signal
						text("lineage.signal.sender", s.Kind).      // who sent it: process, kernel, fault, oom, timer, lineage
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

func sessionAttributes(d *record.SessionInfo) attributes {
	a := attributes{}.text("lineage.session.id", d.ID).text("lineage.session.name", d.Name).text("gen_ai.agent.name", d.Rule).
		count("lineage.level", d.Level).                   // the session's guarantee level
		text("lineage.mode", d.Mode).                      // observe or enforce
		text("lineage.session.parent", d.Parent).          // the outer session
		text("lineage.session.brokered_by", d.BrokeredBy). // of a companion session: the session that asked for the work
		truth("lineage.session.kept", d.Kept)              // it is a kept session
	if !d.Unknown {
		a = a.number("process.user.id", int64(d.UID))
	}
	if d.Root != nil {
		a = a.number("process.pid", int64(d.Root.PID))
	}
	return a
}

// openSession is the first span of a long-lived session.
func openSession(r *record.Record) *trace.Span {
	d := r.Session
	s := placed(d.Span, false, sessionName, *d.Started, r.Time)
	s.Attributes = sessionAttributes(d).truth("lineage.session.running", true) // alive after a minute: the first of its two spans
	return s
}

// sessionSpan is the span of a session that has ended, with its receipt.
func sessionSpan(r *record.Record) *trace.Span {
	d := r.Session
	began := r.Time
	if d.Started != nil {
		began = *d.Started
	}
	s := placed(d.Span, d.Opened, sessionName, began, *d.Ended)
	a := sessionAttributes(d).text("lineage.session.end_reason", d.EndReason)
	for i := range d.Marks {
		addEvent(s, spanEvent(&d.Marks[i]))
	}
	if p := r.Report; p != nil {
		a = a.text("lineage.session.verdict", string(p.Verdict)) // of its receipt, see [verdicts](REFERENCE.md#verdicts)
		a = a.count("lineage.session.started", p.Started)        // processes that ever started
		a = a.count("lineage.session.exited", p.Exited)          // processes that exited before the end
		a = a.count("lineage.session.killed", p.Killed)          // processes that needed SIGKILL
		a = a.count("lineage.session.left", p.Left)              // processes that are still alive
		a = a.text("lineage.session.audit_head", p.AuditHead)    // number and hash of the newest record of the audit log before this end's
		if p.Verdict != api.VerdictClean {
			s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: valid(string(p.Verdict) + ": " + p.VerdictWhy)}
			a = a.text("error.type", string(p.Verdict))
		}
		for i := range p.Processes {
			addEvent(s, outcomeEvent(*d.Ended, &p.Processes[i]))
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
func logOf(r *record.Record, l *record.Log) *logs.LogRecord {
	severity := logs.SeverityNumber(l.Severity)
	out := &logs.LogRecord{
		TimeUnixNano: nanos(l.Time), ObservedTimeUnixNano: nanos(r.Time), EventName: "lineage." + string(r.Kind),
		SeverityNumber: severity, SeverityText: strings.TrimPrefix(severity.String(), "SEVERITY_NUMBER_"),
		Body: textValue(l.Line), Attributes: []*common.KeyValue{{Key: "ocsf.raw", Value: textValue(string(l.JSON))}},
	}
	at := record.Span{}
	switch {
	case r.Process != nil:
		at = r.Process.Span
	case r.Session != nil:
		at = r.Session.Span
	}
	if at.TraceID != (record.TraceID{}) {
		out.TraceId, out.SpanId, out.Flags = at.TraceID[:], at.SpanID[:], 1
	}
	return out
}
