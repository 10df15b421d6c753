//go:build linux

package attribution_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// world is a daemon with what these tests do to it.
type world struct {
	*daemontest.Daemon
	numbers map[string]uint32 // of calls, in the kernel
}

// office is a session of the user with an agent, 101, below its root 100, and a hook of it, 103,
// below a shell 102.
func office(t *testing.T, options ...daemontest.Option) (w *world, s *api.Session) {
	t.Helper()
	w = &world{daemontest.New(t, options...), map[string]uint32{}}
	s = w.Session("user", 100, api.NewSession{Name: "office", GraceMS: daemontest.MS(0)})
	w.forks(100, 101, 101, 102, 102, 103)
	return w, s
}

// forks makes the first of each pair fork the second.
func (w *world) forks(pairs ...uint32) {
	for p := range slices.Chunk(pairs, 2) {
		name := fmt.Sprintf("lngtest-%d", p[1])
		w.Fork(p[0], p[1], 1000, name)
	}
}

func (w *world) mark(who, phase, id string, agent uint32) *api.Mark {
	w.Helper()
	return daemontest.Into[api.Mark](w.Do(who, "POST", "/v1/marks", api.MarkRequest{Phase: phase, ID: id, Tool: "Bash", Agent: w.RefOf(agent)}), http.StatusOK)
}

// calls are the ids of the calls that a process may belong to.
func (w *world) calls(ref string) (ids []string) {
	w.Helper()
	for _, c := range daemontest.Get[api.Process](w, "user", "/v1/processes/"+ref).Calls {
		if !c.Claimed || c.Agent == nil || c.Began == nil || c.Tool != "Bash" {
			w.Errorf("%+v", c)
		}
		ids = append(ids, c.ID)
	}
	return ids
}

func (w *world) haveCalls(pid uint32, want ...string) {
	w.Helper()
	if got := w.calls(fmt.Sprint(pid)); !slices.Equal(got, want) {
		w.Errorf("%d belongs to %q, want %q", pid, got, want)
	}
	// The kernel has the number of the call, if it is only one.
	e, err := w.K.Lookup(pid)
	if err != nil {
		return // it is dead
	}
	id := strings.Join(want, "")
	if n, known := w.numbers[id]; known && n != e.Call || (e.Call != 0) != (len(want) == 1) {
		w.Errorf("%d of %q works for call %d", pid, want, e.Call)
	}
	for other, n := range w.numbers {
		if n == e.Call && n != 0 && other != id {
			w.Errorf("%q and %q are both call %d", id, other, n)
		}
	}
	w.numbers[id] = e.Call
}

// What the agent starts while one call is open belongs to that call, with all that it starts
// later. While several are open all of them are named; older processes have no call.
func TestMarks(t *testing.T) {
	w, s := office(t)
	w.forks(101, 110) // an MCP server
	w.mark("103", "begin", "one", 101)
	w.forks(101, 120, 120, 121, 110, 111)
	w.mark("103", "begin", "two", 101)
	w.forks(101, 130, 121, 122, 100, 140)
	ended := w.mark("103", "end", "one", 101)
	if len(ended.Calls) != 1 || ended.Calls[0].ID != "one" || ended.Calls[0].Ended == nil || ended.Session != s.ID {
		t.Errorf("%+v", ended)
	}
	w.forks(101, 150, 122, 123)
	w.mark("103", "end", "", 101)
	w.forks(101, 160, 123, 124)
	if got := w.calls("111"); !slices.Equal(got, []string{"one"}) { // the kernel does not know: 110 is of none
		t.Errorf("111 belongs to %q", got)
	}
	for pid, want := range map[uint32][]string{
		100: nil, 101: nil, 103: nil, 110: nil, 140: nil, 160: nil,
		120: {"one"}, 121: {"one"}, 122: {"one"}, 123: {"one"}, 124: {"one"},
		130: {"one", "two"}, 150: {"two"},
	} {
		w.haveCalls(pid, want...)
	}
	why := daemontest.Get[api.Why](w, "user", "/v1/why?ref=124")
	if c := why.Process.Calls; len(c) != 1 || c[0].Ended == nil || c[0].Agent.PID != 101 {
		t.Errorf("%+v", c)
	}
}

// An end event of the agent ends its calls, and an end without a beginning is refused.
func TestMarksEndWithTheAgent(t *testing.T) {
	w, _ := office(t)
	w.Do("103", "POST", "/v1/marks", api.MarkRequest{Phase: "end", ID: "none", Agent: w.RefOf(101)}).Refused(api.CodeNotFound)
	w.mark("103", "begin", "one", 101)
	again := daemontest.Into[api.Mark](w.Do("103", "POST", "/v1/marks", `{"phase":"begin","id":"one","agent":{"pid":101}}`), http.StatusOK)
	if len(again.Calls) != 1 {
		t.Errorf("%+v", again)
	}
	w.forks(101, 120, 100, 200, 200, 201)
	w.mark("201", "begin", "other", 200)
	w.K.Exit(101, 0)
	w.forks(100, 130, 103, 140, 200, 210)
	w.haveCalls(120, "one")
	w.haveCalls(130)
	w.haveCalls(140)
	w.haveCalls(210, "other") // of another agent
	if c := daemontest.Get[api.Process](w, "user", "/v1/processes/120").Calls; c[0].Ended == nil {
		t.Errorf("%+v", c)
	}
}

// A subagent's calls are nearer than those of the agent that started it.
func TestMarksOfASubagent(t *testing.T) {
	w, _ := office(t)
	w.mark("103", "begin", "outer", 101)
	w.forks(101, 200, 200, 201) // a subagent and its hook
	w.mark("201", "begin", "inner", 200)
	w.forks(200, 210, 210, 211)
	w.mark("201", "end", "inner", 200)
	w.forks(200, 220)
	w.haveCalls(211, "inner")
	w.haveCalls(220, "outer")
}

// Only a member may mark, only in its own session, and only for an agent that is its ancestor.
func TestMarksRefused(t *testing.T) {
	w, s := office(t)
	other := w.Session("user", 300, api.NewSession{Name: "other"})
	w.forks(300, 301, 101, 104)
	nested := daemontest.Into[api.Session](w.Do("101", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 104}}), http.StatusCreated)
	w.forks(104, 105)
	w.forks(101, 107, 107, 108, 101, 109)
	w.K.Exit(107, 0)
	w.forks(109, 107) // the PID of the creator of 108
	good := api.MarkRequest{Phase: "begin", ID: "x", Tool: "Bash", Agent: w.RefOf(101)}
	of := func(pid uint32) api.MarkRequest { q := good; q.Agent = w.RefOf(pid); return q }
	stale := good
	stale.Agent.StartNS++
	for _, tt := range []struct {
		what, who string
		body      any
		code      string
	}{
		{"root", "root", good, api.CodeDenied},
		{"the session's user", "user", good, api.CodeDenied},
		{"a member of another session", "301", good, api.CodeDenied},
		{"for an agent of another session", "103", of(300), api.CodeDenied},
		{"for a sibling", "103", of(104), api.CodeDenied},
		{"for its child", "101", of(103), api.CodeDenied},
		{"for the owner", "103", of(daemontest.User), api.CodeDenied},
		{"from a nested session", "105", of(101), api.CodeDenied},
		{"another start", "103", stale, api.CodeDenied},
		{"for one whose child has an ancestor's PID", "108", of(109), api.CodeDenied},
		{"no PID", "103", `{"phase":"begin","id":"x","agent":{"start_ns":"1"}}`, api.CodeBadRequest},
		{"a negative PID", "103", `{"phase":"begin","id":"x","agent":{"pid":-101}}`, api.CodeBadRequest},
		{"a PID of more than 32 bits", "103", `{"phase":"begin","id":"x","agent":{"pid":4294967397}}`, api.CodeDenied},
		{"no agent", "103", `{"phase":"begin","id":"x"}`, api.CodeBadRequest},
		{"no id", "103", api.MarkRequest{Phase: "begin", Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"no phase", "103", api.MarkRequest{ID: "x", Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"a long id", "103", api.MarkRequest{Phase: "begin", ID: strings.Repeat("x", 129), Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"a long tool", "103", api.MarkRequest{Phase: "begin", ID: "x", Tool: strings.Repeat("x", 65), Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"an escape", "103", api.MarkRequest{Phase: "begin", ID: "x", Tool: "\x1b[2J", Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"a bidi override", "103", api.MarkRequest{Phase: "begin", ID: "\u202ex", Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"a new line", "103", api.MarkRequest{Phase: "begin", ID: "a\nb", Agent: w.RefOf(101)}, api.CodeBadRequest},
		{"no JSON", "103", `{"phase`, api.CodeBadRequest},
		{"an unknown field", "103", `{"phase":"begin","id":"x","session":"` + s.ID + `"}`, api.CodeBadRequest},
		{"huge", "103", `{"phase":"begin","id":"` + strings.Repeat("x", 64<<10) + `"}`, api.CodeTooLarge},
	} {
		t.Run(tt.what, func(t *testing.T) {
			a := w.Do(tt.who, "POST", "/v1/marks", tt.body)
			a.T = t
			a.Refused(tt.code)
		})
	}
	w.forks(101, 120, 300, 320, 104, 106)
	for _, pid := range []uint32{120, 320, 106} {
		w.haveCalls(pid)
	}
	_, _ = other, nested
}

// A flood of marks is refused, keeps calls up to the limit, and affects only one session.
func TestMarksFlood(t *testing.T) {
	w, _ := office(t)
	w.Session("user", 300, api.NewSession{Name: "other"})
	w.forks(300, 301)
	refused := 0
	for n := range 300 {
		a := w.Do("103", "POST", "/v1/marks", api.MarkRequest{Phase: "begin", ID: fmt.Sprint(n), Tool: "Bash", Agent: w.RefOf(101)})
		if a.Status != http.StatusOK {
			a.Refused(api.CodeTooMany)
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("%d of 300 marks refused", refused)
	}
	w.forks(101, 120)
	if got := w.calls("120"); len(got) != 16 {
		t.Errorf("%d calls are open", len(got))
	}
	w.mark("301", "begin", "x", 300)
}

// Marks and what they are about outlive the daemon and the session, in the events.
func TestMarksInTheHistory(t *testing.T) {
	w, s := office(t, daemontest.WithBoot("b1"))
	w.mark("103", "begin", "one", 101)
	w.forks(101, 120)
	w.haveCalls(120, "one") // the registry has its birth
	w.Restart()
	w.forks(101, 130, 120, 121)
	w.haveCalls(121, "one")
	w.haveCalls(130, "one")
	w.mark("103", "end", "one", 101)
	w.K.Exit(100, 0)
	w.Receipt(s.ID)
	w.Restart()
	events := w.Events("user", "?session=office&since=10000h&type=mark,fork")
	var marks, forks int
	for ev := events.Next(); ev != nil && marks+forks < 5; ev = events.Next() {
		switch {
		case ev.Type == "mark":
			if ev.Call == nil || ev.Call.ID != "one" || !ev.Call.Claimed || (ev.Call.Ended != nil) != (marks == 1) || ev.Process.PID != 101 {
				t.Errorf("%+v %+v", ev, ev.Call)
			}
			marks++
		case ev.Type == "fork" && len(ev.Process.Calls) == 1:
			forks++
		}
	}
	if marks != 2 || forks != 3 {
		t.Errorf("%d marks and %d forks of the call", marks, forks)
	}
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// accepts makes the policy accept traces.
var accepts = daemontest.WithPolicy("trace: accept\n")

func (w *world) trace(pid uint32) *api.Trace {
	w.Helper()
	return daemontest.Get[api.Process](w, "user", fmt.Sprintf("/v1/processes/%d", pid)).Trace
}

// The trace of a child of the agent is read at its first exec, and applies to all below it. Of
// other processes no environment is read.
func TestTrace(t *testing.T) {
	w, _ := office(t, accepts)
	w.mark("103", "begin", "one", 101)
	w.forks(101, 120, 120, 121, 121, 122)
	w.Environ(120, "HOME=/", "TRACEPARENT="+traceparent, "SECRET=hunter2")
	w.Environ(122, "TRACEPARENT=00-11111111111111111111111111111111-2222222222222222-00")
	w.K.Exec(122, "/bin/lngtest", "lngtest\x00")
	w.K.Exec(120, "/bin/sh", "sh\x00")
	w.Until(func() bool { return w.trace(120) != nil })
	w.Environ(120, "TRACEPARENT=00-33333333333333333333333333333333-2222222222222222-00")
	w.K.Exec(120, "/bin/sh", "sh\x00")
	w.forks(122, 123)
	w.Until(func() bool { return w.trace(123) != nil })
	want := api.Trace{TraceID: traceparent[3:35], SpanID: traceparent[36:52], Sampled: true, From: w.RefOf(120), Claimed: true}
	for _, pid := range []uint32{120, 121, 122, 123} {
		if got := w.trace(pid); got == nil || *got != want {
			t.Errorf("%d: %+v", pid, got)
		}
		w.haveCalls(pid, "one")
	}
	if got := w.trace(101); got != nil {
		t.Errorf("the agent: %+v", got)
	}
}

// A member that delays the readers of environments delays nothing else of the daemon, nor its end.
// An invalid traceparent is ignored.
func TestTraceKeptWaiting(t *testing.T) {
	w, s := office(t, accepts)
	w.forks(100, 399)
	w.Environ(399, "TRACEPARENT=none", "TRACEPARENT="+traceparent)
	w.K.Exec(399, "/bin/sh", "sh\x00")
	for pid := uint32(400); pid < 420; pid++ {
		w.forks(100, pid)
		path := w.Host.Proc.Path(pid, "environ")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		t.Cleanup(func() { // releases a reader that waits for a writer, and lets none wait that comes later
			if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
				os.Remove(path)
				f.Close()
			}
		})
		w.K.Exec(pid, "/bin/sh", "sh\x00")
	}
	w.mark("103", "begin", "one", 101)
	w.forks(101, 430)
	w.haveCalls(430, "one")
	if got := w.trace(399); got != nil {
		t.Errorf("%+v", got)
	}
	daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", nil), http.StatusAccepted)
	w.Halt()
}

// The event of the trace, and those after it, carry it.
func TestTraceInEvents(t *testing.T) {
	w, _ := office(t, accepts)
	events := w.Events("user", "?session=office&type=trace,fork,exec,exit")
	w.forks(101, 119) // 101 is not the root, and no mark has named it
	w.Environ(119, "TRACEPARENT="+traceparent)
	w.K.Exec(119, "/bin/sh", "sh\x00")
	w.forks(100, 120)
	w.Environ(120, "TRACEPARENT="+traceparent)
	w.K.Exec(120, "/bin/sh", "sh\x00")
	w.Until(func() bool { return w.trace(120) != nil })
	w.forks(120, 121)
	w.K.Exit(121, 0)
	var got []string
	for ev := events.Next(); ev != nil; ev = events.Next() {
		if ev.Process != nil && ev.Process.Trace != nil {
			got = append(got, fmt.Sprintf("%s %d", ev.Type, ev.Process.PID))
		}
		if ev.Type == "exit" && ev.Process.PID == 121 {
			break
		}
	}
	if want := []string{"trace 120", "fork 121", "exit 121"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
