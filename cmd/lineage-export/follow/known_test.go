package follow

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// sessions is a source.
type sessions map[string]*api.Session

var errDown = errors.New("down")

func (s sessions) Session(id string) (*api.Session, error) {
	if id == "down" {
		return nil, errDown
	}
	return s[id], nil
}
func (sessions) Hide(*api.Event) {}

func of(pid, creator int, more ...func(*api.Process)) *api.Event {
	p := &api.Process{Ref: ref(pid), Session: "a", Comm: "x", Started: new(time.Unix(1, 0)), Evidence: &api.Evidence{Kind: "fork"}}
	if creator != 0 {
		p.Creator = new(ref(creator))
	}
	for _, f := range more {
		f(p)
	}
	return &api.Event{Type: api.EventExec, TimeNS: 9, Time: new(time.Unix(2, 0)), Session: "a", Process: p}
}

func ref(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(pid)} }

func exited(p *api.Process) { p.Exited = new(time.Unix(2, 0)) }

func knowing() *Known {
	return NewKnown(&Host{ID: "h"}, "b", sessions{"a": {ID: "a", Root: &api.Process{Ref: ref(1)}}})
}

func take(t *testing.T, k *Known, e *api.Event) *Record {
	t.Helper()
	r, err := k.Take(e)
	require.NoError(t, err)
	return r
}

// TestAncestry: the creators of a process, as they were read last. One that is younger is none.
func TestAncestry(t *testing.T) {
	k := knowing()
	take(t, k, of(1, 0))
	take(t, k, of(2, 1, func(p *api.Process) { p.Exe, p.Argv = "/bin/a", []string{"a", "b"} }, exited))
	r := take(t, k, of(3, 2))
	all := k.Ancestry(r.Process())
	if len(all) != 2 || all[0].PID != 2 || all[0].Exe != "/bin/a" || all[0].Argv[0] != "a b" || all[1].PID != 1 {
		t.Errorf("%+v", all)
	}
	take(t, k, of(2, 3))
	if all := k.Ancestry(r.Process()); len(all) != 1 {
		t.Errorf("%d ancestors in a loop", len(all))
	}
	if (*Known)(nil).Ancestry(r.Process()) != nil {
		t.Error("ancestors are known to nobody")
	}
}

// TestSpans: a process is below its creator, what an agent claims, or its session; a session is below the one
// around it.
func TestSpans(t *testing.T) {
	k := knowing()
	source := k.From.(sessions)
	source["in"] = &api.Session{ID: "in", Parent: "a", Root: &api.Process{Ref: ref(5), Creator: new(ref(2))}}
	source["for"] = &api.Session{ID: "for", DelegatedBy: "a"}
	source["self"] = &api.Session{ID: "self", Parent: "self"}
	span := func(pid int) SpanID { return processSpan("h", "b", ref(pid)) }
	trace, session := sessionTrace("h", "b", "a"), sessionSpan("h", "b", "a")
	claim := func(from int) func(*api.Process) {
		return func(p *api.Process) {
			p.Trace = &api.Trace{TraceID: TraceID{7}.String(), SpanID: SpanID{8}.String(), From: ref(from)}
		}
	}
	for name, c := range map[string]struct {
		event *api.Event
		want  Span
	}{
		"root":              {of(1, 9), Span{Trace{trace, span(1)}, session}},
		"child":             {of(2, 1), Span{Trace{trace, span(2)}, span(1)}},
		"adopted":           {of(3, 9, func(p *api.Process) { p.Evidence.Kind = "adopted" }), Span{Trace{trace, span(3)}, session}},
		"claims":            {of(4, 1, claim(4)), Span{Trace{TraceID{7}, span(4)}, SpanID{8}}},
		"below who claims":  {of(6, 4, claim(4)), Span{Trace{TraceID{7}, span(6)}, span(4)}},
		"claims not a span": {of(7, 1, func(p *api.Process) { p.Trace = &api.Trace{TraceID: "x"} }), Span{Trace{trace, span(7)}, span(1)}},
	} {
		if got := take(t, k, c.event).Span(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for id, parent := range map[string]SpanID{"in": span(2), "for": session, "self": {}, "unknown": {}, "": {}} {
		s, err := k.Session(id)
		if outer := id == "in" || id == "for"; err != nil || s.Span.Parent != parent || (s.Span.TraceID == trace) != outer {
			t.Errorf("%s: %+v, %v", id, s.Span, err)
		}
	}
}

// TestRecordUnanswered: what the daemon did not say is asked again, also of the session around one.
func TestRecordUnanswered(t *testing.T) {
	k := knowing()
	k.From.(sessions)["in"] = &api.Session{ID: "in", Parent: "down"}
	for _, id := range []string{"down", "in"} {
		for range 2 {
			if s, err := k.Session(id); !errors.Is(err, errDown) || s.ID != id || len(k.sessions) != 0 {
				t.Errorf("%s: %v, %v", id, s, err)
			}
		}
	}
}

// TestRuleLater: what the daemon said of a session outlives an event from before a rule took the session.
func TestRuleLater(t *testing.T) {
	k := knowing()
	k.From.(sessions)["a"] = &api.Session{ID: "a", Name: "agent", Rule: "agent"}
	k.Session("a")
	e := of(1, 0)
	e.Type, e.State, e.Subject = api.EventSession, api.StateActive, &api.Session{ID: "a", Name: "sh", State: api.StateActive}
	if s := take(t, k, e).Session; s.Name != "agent" || s.Rule != "agent" || s.State != api.StateActive {
		t.Errorf("%+v", s)
	}
}

// TestEnd: the end of a session closes it also if the daemon does not know it, with the event's reason and time.
func TestEnd(t *testing.T) {
	k := knowing()
	end := func(id string, subject *api.Session) *api.Event {
		return &api.Event{Type: api.EventSession, Session: id, State: api.StateEnded, Reason: "end", Time: new(time.Unix(3, 0)), Subject: subject}
	}
	whole := &api.Session{ID: "b", Name: "build", State: api.StateEnded, EndReason: "end", Ended: new(time.Unix(2, 0))}
	for id, e := range map[string]*api.Event{"a": end("a", nil), "x": end("x", nil), "b": end("b", whole)} {
		k.Session(id)
		r := take(t, k, e)
		if r.Kind != End || r.Session.EndReason != "end" || r.Session.Ended == nil || r.Session.Unknown != (id == "x") || !k.Over(id) {
			t.Errorf("%s: %s, %+v", id, r.Kind, r.Session)
		}
	}
	if live := k.Live(); len(live) != 0 {
		t.Errorf("%v live", live)
	}
	k.From.(sessions)["past"] = &api.Session{ID: "past", State: api.StateEnded}
	if k.Session("past"); k.Over("past") || len(k.Live()) != 1 {
		t.Errorf("a session whose end was not read is over")
	}
	for n := range maxEnded {
		take(t, k, end(fmt.Sprint(n), nil))
	}
	if len(k.sessions) != maxEnded+1 || k.Over("b") {
		t.Errorf("%d sessions are remembered", len(k.sessions))
	}
}

// TestBounds: whatever members do, what is known stays within its bounds, and who leaves makes room.
func TestBounds(t *testing.T) {
	k := knowing()
	long := func(pid int) func(*api.Process) {
		return func(p *api.Process) { p.Argv = []string{fmt.Sprint(pid, strings.Repeat("x", 4000))} }
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range maxProcesses + 10 {
		take(t, k, of(n+10, 0, long(n)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 36<<20 {
		t.Errorf("%d MiB", grown>>20)
	}
	if len(k.processes) != maxProcesses || k.text > maxText+maxProcesses*(shortArgs+1) {
		t.Errorf("%d processes with %d bytes", len(k.processes), k.text)
	}
	for n := range maxProcesses / 2 {
		take(t, k, of(n+10, 0, exited))
	}
	take(t, k, &api.Event{Type: api.EventSession, Session: "a", State: api.StateEnded, Time: new(time.Unix(3, 0))}) // the other exits were lost
	take(t, k, of(1<<20, 0))
	if n := len(k.processes); n > maxDead+2 || k.Process(ref(1<<20)) == nil || k.text > maxDead*(shortArgs+1) {
		t.Errorf("%d processes with %d bytes after they exited", n, k.text)
	}
}
