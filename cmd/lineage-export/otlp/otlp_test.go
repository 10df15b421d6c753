package otlp

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	coltrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var began = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func about(kind api.EventType, p *api.Process) *follow.Record {
	return &follow.Record{ID: "id", Kind: kind, Time: began.Add(time.Second), Host: &follow.Host{},
		Event: &api.Event{Type: kind, TimeNS: 5e9, Session: "aaaaaa", Process: p},
		Session: &follow.SessionInfo{Session: api.Session{ID: "aaaaaa", Rule: "agent"},
			Span: follow.Span{Trace: follow.Trace{TraceID: follow.TraceID{1}, SpanID: follow.SpanID{2}}}}}
}

func exited(pid int, argv ...string) *follow.Record {
	return about(api.EventExit, &api.Process{Ref: api.Ref{PID: pid, StartNS: 7}, Session: "aaaaaa", Exe: "/usr/bin/" + argv[0], Argv: argv, UID: new(1000),
		Started: &began, Creator: &api.Ref{PID: 1, StartNS: 1}, ExitCode: new(0)})
}

// stub is a receiver whose answer depends on what a request contains.
type stub struct {
	*httptest.Server
	spans   []string // of requests that were accepted
	logs    int
	answer  func(names []string) int // status; nil: 200
	reply   *coltrace.ExportTraceServiceResponse
	asked   int
	largest int // bytes of a request
	log     strings.Builder
}

// refused is how often the log says so.
func (st *stub) refused() int {
	return strings.Count(st.log.String(), "the receiver refuses a record; it is left out")
}

func newStub(t *testing.T) (*stub, *Sink) {
	st := &stub{reply: new(coltrace.ExportTraceServiceResponse)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /base/v1/traces", func(w http.ResponseWriter, r *http.Request) {
		st.asked++
		body, _ := io.ReadAll(r.Body)
		st.largest = max(st.largest, len(body))
		var msg coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &msg); err != nil {
			t.Error(err)
		}
		var names []string
		for _, s := range msg.ResourceSpans[0].ScopeSpans[0].Spans {
			names = append(names, s.Name)
		}
		if st.answer != nil {
			if status := st.answer(names); status != http.StatusOK {
				http.Error(w, "no", status)
				return
			}
		}
		st.spans = append(st.spans, names...)
		b, _ := proto.Marshal(st.reply)
		w.Write(b)
	})
	mux.HandleFunc("POST /base/v1/logs", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var msg collogs.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &msg); err != nil {
			t.Error(err)
		}
		st.logs += len(msg.ResourceLogs[0].ScopeLogs[0].LogRecords)
		if st.logs == 1 {
			http.Error(w, "no", http.StatusBadGateway)
		}
	})
	st.Server = httptest.NewServer(mux)
	t.Cleanup(st.Close)
	return st, &Sink{Client: Client{Base: st.URL + "/base/", HTTP: st.Client()}, Traces: true, Host: &follow.Host{ID: "h"}, Log: zerolog.New(&st.log)}
}

// TestRefusedRecord: a record that a receiver will never take is left out and counted; all
// others arrive.
func TestRefusedRecord(t *testing.T) {
	st, s := newStub(t)
	st.answer = func(names []string) int {
		if slices.Contains(names, "bad") {
			return http.StatusBadRequest
		}
		return http.StatusOK
	}
	var batch []*follow.Record
	for i := range 100 {
		batch = append(batch, exited(i+1, "good"))
	}
	batch[17], batch[80] = exited(18, "bad"), exited(81, "bad")
	require.NoError(t, s.Deliver(t.Context(), batch))
	if len(st.spans) != 98 || st.refused() != 2 {
		t.Errorf("%d spans arrived, %d refused", len(st.spans), st.refused())
	}
}

// TestRefusesAll: a receiver that refuses an empty request too is at fault itself: nothing is
// left out.
func TestRefusesAll(t *testing.T) {
	st, s := newStub(t)
	st.answer = func([]string) int { return http.StatusBadRequest }
	if err := s.Deliver(t.Context(), []*follow.Record{exited(1, "a"), exited(2, "b")}); err == nil || st.refused() != 0 {
		t.Errorf("%v, %d refused", err, st.refused())
	}
	st.answer = nil
	if err := s.Deliver(t.Context(), []*follow.Record{exited(1, "a"), exited(2, "b")}); err != nil || len(st.spans) != 2 {
		t.Errorf("%v, %v", err, st.spans)
	}
}

// TestLater: other errors do not reject the data.
func TestLater(t *testing.T) {
	for _, status := range []int{401, 403, 404, 429, 500, 502, 503, 504} {
		st, s := newStub(t)
		st.answer = func([]string) int { return status }
		err := s.Deliver(t.Context(), []*follow.Record{exited(1, "a")})
		if err == nil || errors.As(err, new(refusal)) || st.asked != 1 || st.refused() != 0 {
			t.Errorf("%d: %v after %d requests", status, err, st.asked)
		}
	}
}

// TestRejected: a receiver may accept a request but reject some of its content, and explain itself
// at length.
func TestRejected(t *testing.T) {
	st, s := newStub(t)
	st.reply.PartialSuccess = &coltrace.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: strings.Repeat("full ", 100<<10)}
	require.NoError(t, s.Deliver(t.Context(), []*follow.Record{exited(1, "a")}))
	if log := st.log.String(); !strings.Contains(log, `"count":3`) || !strings.Contains(log, "the receiver rejected records") || len(log) > 2*maxWhy {
		t.Errorf("%d bytes were logged: %.200s", len(log), log)
	}
}

// TestEvents: a span has a bounded number of events, and counts the others.
func TestEvents(t *testing.T) {
	r := ended()
	r.Report.Processes = make([]api.Outcome, 100)
	if s := spansOf(r)[0]; len(s.Events) != maxEvents || s.DroppedEventsCount != 100-maxEvents {
		t.Errorf("%s: %d events, %d dropped", s.Name, len(s.Events), s.DroppedEventsCount)
	}
}

func ended() *follow.Record {
	r := exited(42, "x")
	r.Kind, r.Event.Process, r.Event.Type, r.Session.Ended, r.Report = follow.End, nil, api.EventSession, &began, new(api.Report)
	return r
}

// TestNotOTLP: a server that says 200 to everything is not a receiver.
func TestNotOTLP(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello</html>") }))
	defer web.Close()
	_, s := newStub(t)
	s.Client.Base = web.URL
	require.Contains(t, fmt.Sprint(s.Deliver(t.Context(), []*follow.Record{exited(1, "a")})), "not an OTLP receiver")
}

// TestHalfSent: if only the logs of a batch have to be sent again, the spans are not.
func TestHalfSent(t *testing.T) {
	st, s := newStub(t)
	s.Logs = func(r *follow.Record) iter.Seq[follow.LogRecord] {
		return slices.Values([]follow.LogRecord{{Severity: 9, Line: r.ID, JSON: []byte("{}")}})
	}
	batch := []*follow.Record{exited(1, "a")}
	if err := s.Deliver(t.Context(), batch); err == nil {
		t.Error("no error of the logs")
	}
	require.NoError(t, s.Deliver(t.Context(), batch))
	if len(st.spans) != 1 || st.logs != 2 {
		t.Errorf("%d spans, %d logs", len(st.spans), st.logs)
	}
}

var update = flag.Bool("update", false, "write the attributes in docs")

// TestAttributes: the page has every attribute of a span or of its events, and what the comments
// say about it.
func TestAttributes(t *testing.T) {
	source, err := os.ReadFile("span.go")
	require.NoError(t, err)
	table := page.NewTable("attribute", "is")
	described, conventional := make(map[string]bool), []string{}
	adds := regexp.MustCompile(`\b(?:text|number|count|truth|time|list)\("([a-z_.]+)"`)
	for line := range strings.Lines(string(source)) {
		code, comment, _ := strings.Cut(line, " // ")
		var keys []string
		for _, m := range adds.FindAllStringSubmatch(code, -1) {
			described[m[1]] = described[m[1]] || comment != ""
			keys = append(keys, "`"+m[1]+"`")
		}
		if len(keys) > 0 && comment != "" {
			table.Row(strings.Join(keys, ", "), strings.TrimSpace(comment))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(described)) {
		switch {
		case described[key]:
		case strings.HasPrefix(key, "lineage."):
			t.Errorf("no comment in span.go says what %s is", key)
		default:
			conventional = append(conventional, "`"+key+"`")
		}
	}
	table.Row(strings.Join(conventional, ", "), "as in OpenTelemetry's conventions")
	require.NoError(t, page.Keep("../../../docs/TELEMETRY.md", "attributes", table.String(), *update))
}

func attributesOf(s *trace.Span) map[string]string {
	got := map[string]string{}
	for _, a := range s.Attributes {
		got[a.Key] = strings.Join(strings.Fields(a.Value.String()), "")
	}
	return got
}

// TestSpan: the convention for the execution of programs. The span is that of the process, from its fork on.
func TestSpan(t *testing.T) {
	r := exited(42, "make", "-j8")
	r.Process().ExitCode = new(2)
	s := spansOf(r)[0]
	got := attributesOf(s)
	for key, want := range map[string]string{
		"process.pid": "int_value:42", "process.executable.name": `string_value:"make"`, "process.executable.path": `string_value:"/usr/bin/make"`,
		"process.exit.code": "int_value:2", "error.type": `string_value:"2"`, "gen_ai.agent.name": `string_value:"agent"`,
		"lineage.session.id": `string_value:"aaaaaa"`, "process.user.id": "int_value:1000", "process.creation.time": `string_value:"2026-11-22T12:00:00Z"`,
		"lineage.process.creator.pid": "int_value:1",
	} {
		if got[key] != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
	if s.Name != "make" || s.Kind != trace.Span_SPAN_KIND_INTERNAL || s.Status.Code != trace.Status_STATUS_CODE_ERROR || len(s.ParentSpanId) != 8 ||
		s.EndTimeUnixNano-s.StartTimeUnixNano != 1e9 {
		t.Errorf("%v", s)
	}
	if _, there := got["gen_ai.operation.name"]; there {
		t.Error("a process is counted as an operation of a model")
	}
}

// TestSignal: a process that died of a signal has no exit code.
func TestSignal(t *testing.T) {
	r := exited(42, "sleep")
	r.Process().ExitCode, r.Process().Signal = nil, "SIGKILL"
	s := spansOf(r)[0]
	if s.Status.GetMessage() != "killed by SIGKILL" || len(s.Events) != 1 || s.Events[0].Name != "lineage.signal" {
		t.Errorf("%v", s)
	}
}

// TestMoments: what happens to a process or a session that goes on is a span of its own, below; a fork and the beginning
// of a session are none.
func TestMoments(t *testing.T) {
	process := spansOf(exited(42, "sh"))[0].SpanId
	session := ended()
	session.Kind, session.Event.State, session.Event.Reason = api.EventSession, api.StateEnding, "idle"
	active := ended()
	active.Kind, active.Event.State = api.EventSession, api.StateActive
	of := func(kind api.EventType, change func(*api.Event)) *follow.Record {
		r := exited(42, "sh")
		r.Kind, r.Event.Type = kind, kind
		change(r.Event)
		return r
	}
	to := &api.Process{Ref: api.Ref{PID: 7}, Comm: "db", Session: "x", UID: new(5)}
	for name, c := range map[string]struct {
		record *follow.Record
		parent []byte
		want   map[string]string
	}{
		"lineage.crossing": {of(api.EventCrossing, func(e *api.Event) { e.Crossing = &api.Crossing{Signal: "SIGTERM", To: to, Refused: true} }), process, map[string]string{
			"lineage.signal": `string_value:"SIGTERM"`, "lineage.signal.refused": "bool_value:true", "lineage.signal.receiver.pid": "int_value:7",
			"lineage.signal.receiver.comm": `string_value:"db"`, "lineage.signal.receiver.session.id": `string_value:"x"`,
			"lineage.signal.receiver.user.id": "int_value:5",
		}},
		"lineage.reparent": {of(api.EventReparent, func(e *api.Event) { e.From = &api.Ref{PID: 5} }), process,
			map[string]string{"lineage.reparent.from_pid": "int_value:5"}},
		"lineage.listen": {of(api.EventListen, func(e *api.Event) { e.Port = &api.Port{Addr: "::", Port: 80} }),
			process, map[string]string{"server.port": "int_value:80"}},
		"lineage.session.ending": {session, session.Session.Span.SpanID[:], map[string]string{"lineage.session.end_reason": `string_value:"idle"`}},
		"none":                   {active, nil, nil},
		"none of a fork":         {of(api.EventFork, func(*api.Event) {}), nil, nil},
	} {
		all := spansOf(c.record)
		if len(all) == 0 && c.want == nil {
			continue
		}
		got := attributesOf(all[0])
		if all[0].Name != name || string(all[0].ParentSpanId) != string(c.parent) || string(all[0].SpanId) == string(c.parent) {
			t.Errorf("%v, want %s below %x", all[0], name, c.parent)
		}
		for key, want := range c.want {
			if got[key] != want {
				t.Errorf("%s: %s is %s, want %s", name, key, got[key], want)
			}
		}
	}
}

// TestReplaced: a program that an exec ended has a span below that of its process; the copy of the creator has none.
func TestReplaced(t *testing.T) {
	r := exited(42, "agent")
	r.Kind, r.Event.Type = api.EventExec, api.EventExec
	r.Event.Was = &api.Process{Comm: "sh", Exe: "/bin/sh", Argv: []string{"sh", "agent"}, UID: new(0)}
	require.Equal(t, len(spansOf(r)), 0)
	r.Event.SinceNS = r.Event.TimeNS - 1e6
	s := spansOf(r)[0]
	got := attributesOf(s)
	if s.Name != "sh" || s.EndTimeUnixNano-s.StartTimeUnixNano != 1e6 || got["process.user.id"] != "int_value:0" || got["process.pid"] != "int_value:42" ||
		string(s.ParentSpanId) != string(spansOf(exited(42, "agent"))[0].SpanId) {
		t.Errorf("%v", s)
	}
}

// FuzzNames: no text that a process chooses makes a message that cannot be encoded.
func FuzzNames(f *testing.F) {
	f.Add("\xff\xfe", "a\x00b", "SIG\x80")
	f.Fuzz(func(t *testing.T, exe, arg, why string) {
		p, r := exited(42, "x"+exe, arg), ended()
		p.Process().Comm, p.Session.Name, r.Session.Name = why, arg, arg
		r.Report = &api.Report{Verdict: api.VerdictLeft, VerdictWhy: why, Processes: []api.Outcome{{Comm: exe, Why: arg}}}
		_, err := proto.Marshal(
			&coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{ScopeSpans: []*trace.ScopeSpans{{Spans: append(spansOf(r),
				spansOf(p)...)}}}}},
		)
		require.NoError(t, err)
		_, err = proto.Marshal(logOf(r, &follow.LogRecord{Line: arg, JSON: []byte(exe)}))
		require.NoError(t, err)
	})
}

// TestRequests: a batch is divided into requests of a bounded size, and what was accepted before
// an error is not sent again.
func TestRequests(t *testing.T) {
	st, s := newStub(t)
	var batch []*follow.Record
	for i := range 3000 {
		batch = append(batch, exited(i+1, "x", strings.Repeat("y", 4000)))
	}
	st.answer = func([]string) int {
		if st.asked == 2 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	if err := s.Deliver(t.Context(), batch); err == nil {
		t.Error("no error of the second request")
	}
	require.NoError(t, s.Deliver(t.Context(), batch))
	if len(st.spans) != len(batch) || st.largest > 2*maxRequest {
		t.Errorf("%d spans arrived, in requests of up to %d bytes", len(st.spans), st.largest)
	}
}
