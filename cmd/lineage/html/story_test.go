package html

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const second = 1e9

// began is when the session of a test began, at boottime 1000 s.
var began = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func wall(at uint64) *time.Time {
	return new(began.Add(time.Duration(int64(at) - 1000*second)))
}

func ref(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(1000*second + uint64(pid))} }

func hideSecret(argv []string) []string {
	shown := make([]string, len(argv))
	for i := range argv {
		shown[i] = strings.ReplaceAll(argv[i], "hunter2", "[redacted]")
	}
	return shown
}

// story is what happens in a session.
type story struct {
	page   *Page
	at     uint64
	newest map[int]api.Ref // by PID
	live   map[api.Ref]*api.Process
}

func tell(name string) *story {
	s := &api.Session{ID: "k3x9q2", Name: name, UID: 1000, State: "active", Root: &api.Process{Ref: ref(100)}, Started: &began, Level: 4, Mode: "observe"}
	st := &story{page: New(s, hideSecret), at: 1000 * second, newest: make(map[int]api.Ref), live: make(map[api.Ref]*api.Process)}
	st.page.host = "build7"
	return st
}

func (s *story) wait(ms uint64) *story {
	s.at += ms * 1e6
	return s
}

func (s *story) event(ev api.Event) {
	ev.TimeNS, ev.Time = api.U64(s.at), wall(s.at)
	if ev.Process != nil {
		s.whole(&ev)
	}
	s.page.Event(&ev)
}

// whole gives an event its process with what earlier events said of it, or of its creator.
func (s *story) whole(ev *api.Event) {
	p := new(*ev.Process)
	before := s.live[p.Ref]
	if before == nil {
		if before = new(api.Process); p.Creator != nil && s.live[*p.Creator] != nil {
			c := s.live[*p.Creator]
			before = &api.Process{Exe: c.Exe, Argv: c.Argv, UID: c.UID}
		}
	}
	p.Session, p.Comm = cmp.Or(p.Session, before.Session, "k3x9q2"), cmp.Or(p.Comm, before.Comm)
	p.Exe, p.UID = cmp.Or(p.Exe, before.Exe), cmp.Or(p.UID, before.UID)
	p.Creator = cmp.Or(p.Creator, before.Creator)
	if p.Argv == nil {
		p.Argv = before.Argv
	}
	if p.Calls == nil {
		p.Calls = before.Calls
	}
	ev.Process = p
	if s.live[p.Ref], p.Started = p, wall(uint64(p.StartNS)); ev.Type == api.EventExit {
		p.Exited = ev.Time
		delete(s.live, p.Ref)
	}
}

func (s *story) fork(creator, child int, comm string, calls ...api.Call) {
	p := api.Process{Ref: ref(child), Comm: comm, Session: "k3x9q2", Calls: calls, UID: new(1000)}
	p.StartNS = api.U64(s.at)
	if creator != 0 {
		p.Creator = new(s.ref(creator))
	}
	s.newest[child] = p.Ref
	s.event(api.Event{Type: "fork", Process: &p})
}

func (s *story) ref(pid int) api.Ref { return s.newest[pid] }

func (s *story) exec(pid int, argv ...string) {
	comm := argv[0][strings.LastIndexByte(argv[0], '/')+1:]
	s.event(api.Event{Type: "exec", Process: &api.Process{Ref: s.ref(pid), Comm: comm[:min(len(comm), 15)], Exe: "/usr/bin/" + comm, Argv: argv, Session: "k3x9q2"}})
}

func (s *story) exit(pid, code int) {
	s.event(api.Event{Type: "exit", Process: &api.Process{Ref: s.ref(pid), ExitCode: &code, CPUSeconds: 0.21, RSSBytes: 9 << 20}})
}

func (s *story) killed(pid int, signal string) {
	s.event(api.Event{Type: "exit", Process: &api.Process{Ref: s.ref(pid), Signal: signal}})
}

func (s *story) state(state api.SessionState, reason string) {
	s.event(api.Event{Type: "session", Session: "k3x9q2", State: state, Reason: reason})
}

func (s *story) call(agent int, id, tool string, over bool) {
	c := api.Call{ID: id, Tool: tool, Agent: new(s.ref(agent)), Claimed: true}
	if over {
		c.Ended = wall(s.at)
	}
	s.event(api.Event{Type: "mark", Process: &api.Process{Ref: s.ref(agent)}, Call: &c})
}

func (s *story) listen(kind api.EventType, pid, port int) {
	s.event(api.Event{Type: kind, Process: &api.Process{Ref: s.ref(pid)}, Port: &api.Port{Proto: "tcp", Addr: "127.0.0.1", Port: port}})
}

// agent is a coding agent with two tool calls, of which the first leaves a server and the second
// compiles; text is what its members call themselves.
func agent(text string) (*story, *api.Report) {
	s := tell("agent" + text)
	s.page.session.Root = &api.Process{Ref: api.Ref{PID: 100, StartNS: api.U64(s.at)}, Argv: []string{"codex", "exec", "--token=hunter2" + text}}
	s.state("active", "")
	s.fork(0, 100, "exe")
	s.wait(3).exec(100, "/usr/bin/codex", "exec", "fix the failing test"+text)
	s.wait(420).call(100, "toolu_01"+text, "Bash"+text, false)
	one := api.Call{ID: "toolu_01" + text, Tool: "Bash" + text, Agent: new(s.ref(100)), Claimed: true}
	s.wait(5).fork(100, 101, "codex", one)
	s.wait(2).exec(101, "/bin/bash", "-lc", "npm run dev &"+text)
	s.wait(4).fork(101, 102, "bash", one)
	s.wait(1).exec(102, "node", "/srv/app/node_modules/.bin/vite", "--port", "5173", "--token", "hunter2"+text)
	s.wait(180).listen("listen", 102, 5173)
	s.wait(20).exit(101, 0)
	s.event(api.Event{Type: "reparent", Process: &api.Process{Ref: s.ref(102)}, From: new(s.ref(101)), To: &api.Ref{PID: 99, StartNS: 5}})
	s.call(100, "toolu_01"+text, "", true)
	s.wait(300).call(100, "toolu_02", "Bash", false)
	two := api.Call{ID: "toolu_02", Tool: "Bash", Agent: new(s.ref(100)), Claimed: true}
	s.wait(5).fork(100, 103, "codex", two)
	s.wait(2).exec(103, "make", "-j2"+text)
	for pid := 110; pid < 122; pid++ {
		s.wait(9).fork(103, pid, "make", two)
		s.wait(1).exec(pid, "cc", "-O2", "-c", fmt.Sprintf("src/part%d.c%s", pid-109, text))
		if pid > 111 {
			s.wait(60).exit(pid-2, 0)
		}
	}
	for pid := 200; pid < 230; pid++ {
		s.wait(3).fork(103, pid, "make", two)
		s.exec(pid, "test", "-e", "out"+text)
		s.wait(1).exit(pid, 1)
	}
	s.exit(120, 0)
	s.exit(121, 1)
	s.wait(20).exit(103, 2)
	s.call(100, "toolu_02", "", true)
	s.wait(400).exit(100, 0)
	s.state("ending", "root_exit")
	s.wait(250).state("condemned", "root_exit")
	s.wait(2).killed(102, "SIGKILL")
	s.listen("unlisten", 102, 5173)
	s.state("ended", "root_exit")
	r := &api.Report{Session: "k3x9q2", Name: s.page.session.Name, State: "ended", Ended: wall(s.at), EndReason: "root_exit",
		Verdict: "clean", DurationMS: 252.4, Started: 46,
		Exited: 45, Killed: 1, ConfirmedEmpty: true, PortsFreed: []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 5173}},
		LocksReleased: []api.Lock{{Type: "flock", Mode: "write", Path: "/srv/app/.lock" + text}},
		Processes: []api.Outcome{{Ref: s.ref(102), Comm: "node", Argv: []string{"node", "/srv/app/node_modules/.bin/vite",
			"--port", "5173", "--token", "hunter2" + text},
			Outcome: "kill", Leftover: true}}}
	s.page.session.Peak, s.page.session.CPUSeconds, s.page.session.State = 6, 11.4, "ended"
	s.page.session.Ended = wall(s.at)
	return s, r
}

func written(t testing.TB, s *story, r *api.Report) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, s.page.Write(&out, r))
	return out.String()
}

// everything is a report in which no field is empty, and its facts as the page says them.
func everything(s *story) (*api.Report, []string) {
	process := func(pid int, argv ...string) *api.Process {
		return &api.Process{Ref: api.Ref{PID: pid, StartNS: 7}, Comm: argv[0], Argv: argv}
	}
	r := &api.Report{Head: api.NewHead("report"), Session: "k3x9q2", Name: "agent", State: "ended", Ended: wall(s.at), EndReason: "end",
		EndedBy: &api.Caller{UID: 1234, PID: 5678, Comm: "asker"}, Verdict: "left", VerdictWhy: "2 processes in state D", DurationMS: 9876.5,
		Processes: []api.Outcome{
			{Ref: s.ref(102), Comm: "node", Argv: []string{"node", "vite"}, Outcome: "kill", Leftover: true},
			{Ref: ref(9001), Comm: "dd", Argv: []string{"dd", "if=/dev/stuck"}, Outcome: "left", Why: "state D: waits for a disk",
				Container: &api.Container{Name: "crate"}},
			{Ref: ref(9002), Comm: "keeper", Outcome: "kept", Session: "kkkkk1", Why: "session kkkkk1 by rule keep.3"},
			{Ref: ref(9003), Comm: "polite", Outcome: "term"}, {Ref: ref(9004), Comm: "own", Outcome: "self"},
		},
		Started: 7077, Exited: 2022, Killed: 3033, Left: 4044, Zombies: []api.Zombie{{Ref: ref(9100), Comm: "undead", Reaper: process(9101, "reaper", "--busy")}},
		Root:           &api.Death{Process: api.Process{Ref: ref(9010), Comm: "failed", Signal: "SIGABRT"}},
		ConfirmedEmpty: true, Truncated: true, Also: []string{"zzzzz2"}, WouldEnd: []string{"max_rss"},
		Counted: &api.Counted{Births: 7076, Live: 4041, Dying: 6, Unentered: 8, Corrected: true}, AuditHead: "41:" + strings.Repeat("9f86d081",
			8), Limits: &api.Limits{MemoryBytes: 8 << 30}, Account: &api.Account{MemoryPeakBytes: 7 << 30, CPUSeconds: 31},
		Calls:      []api.Call{{ID: "toolu_9", Tool: "Bash", Used: &api.Used{Processes: 3, CPUSeconds: 30, PeakRSSBytes: 5 << 30, Largest: "cc1"}}},
		Delegated:  []api.Delegated{{Broker: "tmux", State: "attributed", Asked: process(9200, "tmux", "new"), Process: process(9201, "vim"), Session: "yyyyy3"}},
		PortsFreed: []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 5173}}, PortsBusy: []api.Port{{Proto: "udp", Addr: "127.0.0.2", Port: 5174, PID: 9300}},
		PortsTimeWait: []api.Port{{Proto: "tcp", Addr: "127.0.0.3", Port: 5175, Connections: 17}},
		LocksReleased: []api.Lock{{Type: "flock", Mode: "write", Path: "/srv/lock1"}}, LocksHeld: []api.Lock{{Type: "posix", Path: "/srv/lock2", PID: 9301}},
		OutputHeldBy: []api.Process{*process(9302, "tee", "log")}, HoldsUnknown: []string{"open files of 9303"},
	}
	for pid := 9400; pid < 9440; pid++ { // folded
		r.Processes = append(r.Processes, api.Outcome{Ref: ref(pid), Comm: "sleep", Argv: []string{"sleep", "99"}, Outcome: "kill"})
	}
	facts := []string{
		"k3x9q2", "agent", "ended on request", "ended, left",
		"1011 of 5055 processes in 9.88s; 2 processes in state D", "uid 1234, pid 5678 asker",
		stamp(r.Ended),
		"7077 processes", "2022 exited before the end", "3033 needed SIGKILL", "4044 still alive",
		"Confirmed empty yes", "Reason end", "7076 births in it, 4041 live, 6 dying, 8 without room, corrected",
		r.AuditHead,
		"102 node vite left over SIGKILL",
		"9001 dd if=/dev/stuck in container crate still alive: state D: waits for a disk",
		"9002 keeper kept: session kkkkk1 by rule keep.3", "9003 polite SIGTERM", "9004 own exited",
		"failed (9010) was killed by SIGABRT", "×40", "9400 9401", "9438 9439", "sleep 99",
		"zombies, to be reaped by 9101 reaper --busy: 9100 undead", "zzzzz2",
		"max_rss", "peak 7.0G of 8.0G, CPU 31", "tool call Bash toolu_9: 3 processes, CPU 30.00s, largest cc1 5.0G",
		"5011 more processes ended",
		"delegated: 9201 vim, in session yyyyy3, not ended with this one: 9200 tmux new asked tmux",
		"freed tcp 127.0.0.1:5173", "still busy: udp 127.0.0.2:5174, by 9300",
		"tcp 127.0.0.3:5175 has 17 connections in TIME_WAIT", "released flock (write) /srv/lock1",
		"still held: posix /srv/lock2, by 9301", "its output is still open in 9302 tee log",
		"not everything could be read: open files of 9303",
	}
	return r, facts
}
