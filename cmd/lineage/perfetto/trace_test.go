package perfetto

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/perfetto/perfettotest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const second = 1e9

// began is when the session of a test began, at boottime 1000 s.
var began = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func wall(at uint64) *time.Time {
	return new(began.Add(time.Duration(int64(at) - 1000*second)))
}

// story is what happens in a session.
type story struct {
	trace *Trace
	out   bytes.Buffer
	at    uint64
}

func newStory() *story {
	s := &story{at: 1000 * second}
	s.trace = New(&s.out, &api.Session{ID: "k3x9q2", Name: "build", Started: &began, Root: &api.Process{Ref: ref(100)}}, hideSecret)
	return s
}

func hideSecret(argv []string) []string {
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "hunter2", "[redacted]")
	}
	return argv
}

func ref(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(900*second + uint64(pid))} }

// event makes an event at the current time, which then advances by 1 ms.
func (s *story) event(kind api.EventType, p *api.Process) *api.Event {
	ev := &api.Event{Type: kind, TimeNS: api.U64(s.at), Time: wall(s.at), Process: p}
	s.at += 1e6
	return ev
}

func (s *story) tell(kind api.EventType, p *api.Process) { s.trace.Event(s.event(kind, p)) }

func (s *story) root() {
	p := &api.Process{Ref: ref(100), Comm: "sh", State: api.StateLive, Started: wall(uint64(ref(100).StartNS)), Session: "k3x9q2",
		Evidence: &api.Evidence{Kind: "root"}}
	s.trace.Event(&api.Event{Head: api.Head{Kind: "process"}, Process: p})
}

func (s *story) fork(creator, child int, comm string) {
	s.tell("fork", &api.Process{Ref: ref(child), Creator: new(ref(creator)), Comm: comm, Session: "k3x9q2"})
}

func (s *story) exec(pid int, argv ...string) {
	s.tell("exec", &api.Process{Ref: ref(pid), Comm: argv[0], Exe: "/usr/bin/" + argv[0], Argv: argv, UID: new(1000), Session: "k3x9q2"})
}

func (s *story) exit(pid, code int) {
	s.tell("exit", &api.Process{Ref: ref(pid), ExitCode: &code, CPUSeconds: 0.5, RSSBytes: 1 << 20})
}

func (s *story) killed(pid int, signal string) {
	s.tell("exit", &api.Process{Ref: ref(pid), Signal: signal})
}

func (s *story) reaped(pid int) { s.tell("reaped", &api.Process{Ref: ref(pid)}) }

func (s *story) state(state api.SessionState, reason string) {
	ev := s.event("session", nil)
	ev.Session, ev.State, ev.Reason = "k3x9q2", state, reason
	s.trace.Event(ev)
}

func (s *story) end(t *testing.T, r *api.Report) *perfettotest.Read {
	t.Helper()
	require.NoError(t, s.trace.Close(r))
	return perfettotest.Decode(t, s.out.Bytes())
}

// sessions are the stories whose traces are kept as text in testdata.
var sessions = map[string]func(*story) *api.Report{
	// What make does: two children, one after the other.
	"make": func(s *story) *api.Report {
		s.root()
		s.exec(100, "make", "-j1")
		for _, pid := range []int{101, 102} {
			s.fork(100, pid, "make")
			s.exec(pid, "cc", "-c", "a b.c")
			s.exit(pid, pid-101)
			s.reaped(pid)
		}
		s.trace.Usage(&api.Session{RSSBytes: 5 << 20, CPUSeconds: 1}, *wall(1001 * second))
		s.trace.Usage(&api.Session{RSSBytes: 6 << 20, CPUSeconds: 1.5}, *wall(1002 * second))
		s.exit(100, 0)
		s.state(api.StateEnded, "root_exit")
		return &api.Report{Verdict: api.VerdictClean, EndReason: "root_exit"}
	},
	// A leftover server: its creator is dead, it listens, and it is ended.
	"leftover": func(s *story) *api.Report {
		s.root()
		s.fork(100, 101, "sh")
		s.fork(101, 102, "sh")
		s.exec(102, "server", "--password=hunter2")
		s.exit(101, 0)
		ev := s.event("reparent", &api.Process{Ref: ref(102)})
		ev.From, ev.To = new(ref(101)), new(ref(1))
		s.trace.Event(ev)
		s.reaped(101)
		ev = s.event("listen", &api.Process{Ref: ref(102)})
		ev.Port = &api.Port{Proto: "tcp", Addr: "127.0.0.1", Port: 8123}
		s.trace.Event(ev)
		s.exit(100, 0)
		s.state(api.StateEnding, "root_exit")
		s.state(api.StateCondemned, "root_exit")
		s.killed(102, "SIGKILL")
		ev = s.event("unlisten", &api.Process{Ref: ref(102)})
		ev.Port = &api.Port{Proto: "tcp", Addr: "127.0.0.1", Port: 8123}
		s.trace.Event(ev)
		s.state(api.StateEnded, "root_exit")
		return &api.Report{Verdict: api.VerdictLeft, VerdictWhy: "1 process in state D", EndReason: "root_exit", Killed: 1, Left: 1,
			EndedBy:   &api.Caller{UID: 0, PID: 7, Comm: "lineage"},
			Processes: []api.Outcome{{Ref: ref(102), Outcome: api.OutcomeLeft, Why: "state D"}}}
	},
	// The history of a session, without its beginning.
	"history": func(s *story) *api.Report {
		s.at = 1060 * second
		s.trace.Event(&api.Event{Type: "lost", Where: "history", Time: wall(s.at)})
		for _, p := range []*api.Process{
			{Ref: ref(100), Comm: "sh", State: api.StateLive},
			{Ref: ref(101), Creator: new(ref(100)), Comm: "cc", State: api.StateExited, Exited: wall(1003 * second), ExitCode: new(1)},
		} {
			p.Started = wall(uint64(p.StartNS))
			s.trace.Process(p)
		}
		s.fork(100, 102, "sh")
		s.exit(102, 0)
		s.at += second
		ev := &api.Event{Type: "lost", Where: "ring", Count: 70, SinceNS: api.U64(s.at), UntilNS: api.U64(s.at + second)}
		s.trace.Event(ev)
		s.at += 2 * second
		s.fork(100, 103, "sh")
		s.trace.Missing("the daemon did not answer")
		s.at += second
		s.exit(100, 0)
		return nil
	},
	// A nested session, and a process that only an iterator found.
	"nested": func(s *story) *api.Report {
		s.root()
		s.fork(100, 101, "sh")
		ev := s.event("session", nil)
		ev.Session, ev.State = "zzzzz2", api.StateActive
		s.trace.Event(ev)
		s.tell("fork", &api.Process{Ref: ref(102), Creator: new(ref(101)), Comm: "sh", Session: "zzzzz2", NSPID: 2})
		s.tell("fork", &api.Process{Ref: ref(103), Creator: new(ref(55)), Comm: "lost", Session: "k3x9q2",
			Evidence: &api.Evidence{Kind: "reconciled"}})
		s.exec(104, "unheard") // no fork event
		s.state(api.StateEnding, "end")
		s.exit(100, 0) // 101 to 103 are alive, but not left over
		s.exit(104, 0)
		s.state(api.StateEnded, "end")
		return &api.Report{Verdict: api.VerdictUnknown}
	},
	// An agent that reports its tool calls, two of them at once, and sets TRACEPARENT.
	"agent": func(s *story) *api.Report {
		s.root()
		call := func(id string, over bool) {
			ev := s.event("mark", &api.Process{Ref: ref(100)})
			ev.Call = &api.Call{ID: id, Tool: "Bash", Agent: new(ref(100)), Claimed: true}
			if over {
				ev.Call.Ended = ev.Time
			}
			s.trace.Event(ev)
		}
		call("toolu_1", false)
		call("toolu_2", false)
		p := &api.Process{Ref: ref(101), Creator: new(ref(100)), Comm: "sh", Session: "k3x9q2", Calls: []api.Call{{ID: "toolu_1", Tool: "Bash"}, {ID: "toolu_2"}}}
		s.tell("fork", p)
		p.Calls, p.Trace = nil, &api.Trace{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7"}
		s.tell("trace", p)
		call("toolu_1", true)
		call("toolu_1", true)
		s.exit(101, 0)
		return nil
	},
	// Names that a process may choose, a PID that is reused, and times out of order.
	"hostile": func(s *story) *api.Report {
		s.root()
		s.fork(100, 101, "\x1b[2J\xff\u202eevil\n")
		s.exec(101, strings.Repeat("é", 4000), "a\x00b", "\xf0\x28\x8c\x28")
		again := api.Ref{PID: 101, StartNS: ref(101).StartNS + 7}
		s.tell("fork", &api.Process{Ref: again, Creator: new(ref(100)), Comm: "again"})
		s.at -= 2e6
		s.tell("exit", &api.Process{Ref: again, ExitCode: new(0)})
		s.tell("exit", &api.Process{Ref: again, ExitCode: new(0)}) // twice
		return nil
	},
}

// TestSessions compares traces with the expected ones.
func TestSessions(t *testing.T) {
	for name, happen := range sessions {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			report := happen(s)
			r := s.end(t, report)
			if strings.Contains(r.Text(), "hunter2") {
				t.Error("a secret is in the trace")
			}
			golden.RequireEqual(t, []byte(r.Text()))
		})
	}
}

// TestArgumentsAreLeftOut: without a redactor there are no arguments.
func TestArgumentsAreLeftOut(t *testing.T) {
	s := newStory()
	s.trace.redact = nil
	s.root()
	s.exec(100, "server", "--password=hunter2")
	if r := s.end(t, nil); strings.Contains(r.Text(), "password") {
		t.Errorf("the arguments are in\n%s", r.Text())
	}
}

// TestDeep: a long chain has every process, and remembers those that live.
func TestDeep(t *testing.T) {
	s := newStory()
	s.root()
	const chain = 1000
	for pid := 101; pid < 100+chain; pid++ {
		s.fork(pid-1, pid, "chain")
		s.exit(pid-1, 0)
		s.reaped(pid - 1)
	}
	r := s.end(t, nil)
	if r.Processes != chain || r.Flows != chain-1 {
		t.Errorf("%d processes and %d arrows, want %d", r.Processes, r.Flows, chain)
	}
	require.Equal(t, len(s.trace.members), 1)
}

// TestWriteError: the first error is kept and nothing is written after it.
func TestWriteError(t *testing.T) {
	full := errors.New("no space left on device")
	w := &failing{err: full}
	tr := New(w, &api.Session{ID: "k3x9q2"}, nil)
	var err error
	for pid := 1; pid < 5000 && err == nil; pid++ {
		err = tr.Event(&api.Event{Type: "fork", TimeNS: api.U64(pid), Process: &api.Process{Ref: api.Ref{PID: pid, StartNS: 1}}})
	}
	if !errors.Is(err, full) || !errors.Is(tr.Close(nil), full) || w.calls != 1 {
		t.Errorf("%v, %d writes", err, w.calls)
	}
}

type failing struct {
	err   error
	calls int
}

func (f *failing) Write([]byte) (int, error) { f.calls++; return 0, f.err }

// FuzzNames: whatever a process calls itself, the trace can be read.
func FuzzNames(f *testing.F) {
	f.Add("make", "/bin/make", "-j8", "why")
	f.Add("\xff\xfe", "/\x00", "\u202e\x1b]0;x\a", strings.Repeat("\n", 300))
	f.Fuzz(func(t *testing.T, comm, exe, arg, reason string) {
		s := newStory()
		s.root()
		p := &api.Process{Ref: ref(101), Creator: new(ref(100)), Comm: comm, Exe: exe, Argv: []string{arg}, Session: reason}
		s.tell("fork", p)
		s.tell("exec", p)
		ev := s.event("session", nil)
		ev.Session, ev.State, ev.Reason = reason, api.SessionState(reason), reason
		s.trace.Event(ev)
		s.tell("exit", &api.Process{Ref: ref(101), Signal: reason})
		s.trace.Event(&api.Event{Type: "lost", Where: reason})
		s.end(t, &api.Report{Verdict: api.Verdict(reason), VerdictWhy: reason, EndReason: reason, EndedBy: &api.Caller{Comm: comm}})
	})
}

// FuzzOrder: whatever the order of the events is, the trace can be read.
func FuzzOrder(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x10\x21\x33\x05\x16\x67"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		s := newStory()
		reused := map[int]api.U64{}
		kinds := []api.EventType{"fork", "exec", "exit", "reaped", "reparent", "listen", "lost", "session", "mark"}
		for i, b := range steps {
			pid := 100 + int(b>>4)
			p := &api.Process{Ref: ref(pid), Comm: fmt.Sprint(b), Creator: new(ref(100 + i%16))}
			p.StartNS += reused[pid]
			if kinds[int(b)%len(kinds)] == "reaped" {
				reused[pid] += 100
			}
			s.at = max(s.at+uint64(b)*1000-100_000, 1)
			ev := s.event(kinds[int(b)%len(kinds)], p)
			if ev.Call = (&api.Call{ID: p.Comm}); b&1 == 1 {
				ev.Call.Ended = ev.Time
			}
			s.trace.Event(ev)
		}
		s.end(t, nil)
	})
}

// TestManyProcesses: 100,000 processes take only the memory of those that are alive.
func TestManyProcesses(t *testing.T) {
	const processes, alive = 100_000, 500
	s := newStory()
	var written counting
	s.trace = New(&written, s.trace.session, hideSecret)
	s.root()
	began := time.Now()
	for pid := 101; pid < 101+processes; pid++ {
		s.fork(100, pid, "sh")
		s.exec(pid, "true", "--every", "argument")
		if old := pid - alive; old > 100 {
			s.exit(old, 0)
			s.reaped(old)
		}
	}
	require.Equal(t, len(s.trace.members), alive+1)
	require.NoError(t, s.trace.Close(nil))
	t.Logf("figure: %d processes in %v, %d bytes", processes, time.Since(began).Round(time.Millisecond), written)
}

type counting int

func (c *counting) Write(b []byte) (int, error) { *c += counting(len(b)); return len(b), nil }
