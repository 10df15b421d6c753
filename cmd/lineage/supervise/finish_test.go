//go:build linux

package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

func over(pid int, outcome api.OutcomeKind, argv ...string) api.Outcome {
	o := api.Outcome{Ref: api.Ref{PID: pid, StartNS: 7}, Comm: "lngtest", Argv: argv, Outcome: outcome, Leftover: true}
	if len(argv) > 0 {
		o.Comm = filepath.Base(argv[0])
	}
	return o
}

func receipt(verdict api.Verdict, processes ...api.Outcome) *api.Report {
	return &api.Report{Session: "k3x9q2", State: "ended", Verdict: verdict, Processes: processes}
}

func TestLeftovers(t *testing.T) {
	two := receipt("clean", over(4121, "term", "/bin/bash", "-c", `trap "" TERM; sleep 300`), over(4124, "kill", "sleep", "301"))
	many, others := receipt("clean"), receipt("clean")
	for i := range 23 {
		many.Processes = append(many.Processes, over(100+i, "term", "sleep"))
		others.Processes = append(others.Processes, over(100+i, "term", "sleep", fmt.Sprint(i)))
	}
	stuck := over(9, "left", "dd")
	stuck.Why = "state D (nfs_wait)"
	left := receipt("left", stuck, over(10, "kept"))
	left.Left = 1
	unproven := receipt("unknown")
	unproven.VerdictWhy = "the task list could not be read"
	root := over(3, "self", "sh")
	root.Leftover = false
	boxed := over(6, "kill")
	boxed.Container = &api.Container{Name: "db"}
	held := receipt("clean", over(5, "term", "x"))
	held.PortsFreed = []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 8080, PID: 5}, {Proto: "unix", Addr: "/run/a\x1b"}}
	held.LocksReleased = []api.Lock{{Type: "flock", Path: "/db", PID: 5}, {Type: "file", Path: "/r/index.lock"}}
	locked := receipt("clean", over(5, "term", "x"))
	locked.LocksReleased = []api.Lock{
		{Type: "posix", Path: "/logs.sqlite-shm", PID: rootPID},
		{Type: "posix", Path: "/awaited", PID: rootPID, Waiting: []int{77}},
		{Type: "flock", Path: "/db", PID: 5},
	}
	busy := receipt("clean", root)
	busy.PortsFreed = held.PortsFreed // held by the root: nothing was left over
	busy.PortsBusy = []api.Port{{Proto: "tcp6", Addr: "::", Port: 81, PID: 77}}
	busy.LocksHeld = []api.Lock{{Type: "ofd", Path: "/db"}}
	busy.OutputHeldBy = []api.Process{{Ref: api.Ref{PID: 78}, Comm: "tmux"}}
	const about = "lineage: session k3x9q2: "
	const busyLines = about + "still busy: tcp6 [::]:81, by 77\n" + about + "still held: ofd /db, by an unknown process\n" + about + "its output is still open in 78 tmux\n"
	const one, two0 = about + "1 process was left over when sh exited; ended, clean: 1 process in 0s\n", about + "2 processes were left over when sh exited; ended, "

	for _, c := range []struct {
		name  string
		s     script
		quiet bool
		want  string
	}{
		{name: "none", s: script{Verdict: receipt("clean", root)}},
		{name: "two", s: script{Verdict: two, GraceSecs: 5},
			want: two0 + "clean: 2 processes in 0s\nlineage:   4121 bash -c 'trap \"\" TERM; sleep 300'  SIGTERM\nlineage:   4124 sleep 301  SIGKILL\n"},
		{name: "one, and what it is called is no terminal's",
			s:    script{Verdict: receipt("clean", over(5, "self", "a\x1b]0;x\a", "\u202eb\nc", "\xff", "", ""))},
			want: one + "lineage:   5 'a\\x1b]0;x\\x07' '\\u202eb\\nc' \ufffd  exited\n"},
		{name: "of a container", s: script{Verdict: receipt("clean", boxed), GraceSecs: 5},
			want: one + "lineage:   6 lngtest in container db  SIGKILL\n"},
		{name: "quiet", s: script{Verdict: two}, quiet: true},
		{name: "quiet, but not all ended", s: script{Verdict: left}, quiet: true,
			want: two0 + "left: 0 of 1 process in 0s\n"},
		{name: "quiet, but not proven", s: script{Verdict: unproven}, quiet: true,
			want: about + "ended, unknown: no proof that nothing is left: the task list could not be read\n"},
		{name: "not all ended", s: script{Verdict: left},
			want: two0 + "left: 0 of 1 process in 0s\nlineage:   9 dd  still alive: state D (nfs_wait)\nlineage:   10 lngtest  kept\n"},
		{name: "ports and locks", s: script{Verdict: held, GraceSecs: 5},
			want: one + "lineage:   5 x  SIGTERM\n" + about + "freed tcp 127.0.0.1:8080\n" + about + "freed unix /run/a\\x1b\n" +
				about + "released flock /db\n" + about + "released lock file /r/index.lock\n"},
		{name: "locks of the root", s: script{Verdict: locked, GraceSecs: 5},
			want: one + "lineage:   5 x  SIGTERM\n" + about + "released posix /awaited, waited for by 77\n" + about + "released flock /db\n"},
		{name: "quiet, ports and locks", s: script{Verdict: held}, quiet: true},
		{name: "others keep some", s: script{Verdict: busy}, want: busyLines},
		{name: "quiet, others keep some", s: script{Verdict: busy}, quiet: true, want: busyLines},
		{name: "many", s: script{Verdict: many},
			want: about + "23 processes were left over when sh exited; ended, clean: 23 processes in 0s\nlineage:   ×23 sleep  SIGTERM\n"},
		{name: "many others", s: script{Verdict: others},
			want: about + "23 processes were left over when sh exited; ended, clean: 23 processes in 0s\n" + manyLines(20) + "lineage:   and 3 more\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Options.Quiet = c.quiet
			got := run(t, c.s, "/bin/sh", "-c", "exit 4")
			if got.code != 4 || got.stdout != "" || got.stderr != c.want {
				t.Errorf("exit code %d, stdout %q, stderr\n%swant\n%s", got.code, got.stdout, got.stderr, c.want)
			}
		})
	}
}

// The progress line is gone when the receipt is printed.
func TestEndIsShown(t *testing.T) {
	r := receipt("left", over(5, "left", "sleep", "300"))
	got := run(t, script{ShowEnd: true, Verdict: r}, "true")
	if !strings.HasPrefix(got.stderr, "ending k3x9q2\nshown\nlineage: ") {
		t.Errorf("%q", got.stderr)
	}
	s := script{ShowEnd: true, Verdict: &api.Report{Session: "k3x9q2", State: "active"}, Alive: &api.Tree{}}
	s.Options.OnExit = OnExitReport
	if got := run(t, s, "true"); strings.Contains(got.stderr, "ending") {
		t.Errorf("nothing ends: %q", got.stderr)
	}
}

// If the session ended before the command exited, the reason is printed, quiet or not.
func TestEndedBefore(t *testing.T) {
	ended := func(reason string, processes ...api.Outcome) *api.Report {
		rep := receipt("clean", processes...)
		rep.EndReason = reason
		return rep
	}
	asked := ended("end", over(5, "kill", "x"))
	asked.EndedBy = &api.Caller{UID: 7, PID: 99, Comm: "cu\x1brl"}
	halted := ended("halt")
	halted.EndedBy = &api.Caller{UID: 7, PID: 99, Comm: "cu\x1brl", Reason: "breach"}
	left := ended("max_rss", over(5, "kill", "x"), over(6, "left", "dd"))
	left.Verdict, left.Left = "left", 1
	freed := ended("idle")
	freed.PortsFreed = []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 8080, PID: 5}}
	const line = "lineage: session k3x9q2: ended"

	for _, c := range []struct {
		rep         *api.Report
		want, quiet string // quiet "": the same
	}{
		{rep: ended("root_exit")},
		{rep: ended("max_processes", over(5, "term", "x")), want: line + ": max_processes reached\n"},
		{rep: asked, want: line + " on request by uid 7, pid 99 cu\\x1brl\n"},
		{rep: halted, want: line + ": the host was halted by uid 7, pid 99 cu\\x1brl: breach\n"},
		{rep: ended("of the future"), want: line + ": of the future\n"},
		{rep: left, want: line + ": max_rss reached; ended, left: 1 of 2 processes in 0s\nlineage:   6 dd  still alive\n",
			quiet: line + ": max_rss reached; ended, left: 1 of 2 processes in 0s\n"},
		{rep: freed, want: line + ": it was idle\nlineage: session k3x9q2: freed tcp 127.0.0.1:8080\n", quiet: line + ": it was idle\n"},
	} {
		s := script{Verdict: c.rep, GraceSecs: 5}
		for _, s.Options.Quiet = range []bool{false, true} {
			want := c.want
			if s.Options.Quiet && c.quiet != "" {
				want = c.quiet
			}
			if got := run(t, s, "/bin/sh", "-c", "exit 4"); got.code != 4 || got.stderr != want {
				t.Errorf("%s, quiet %v: exit code %d, stderr\n%swant\n%s", c.rep.EndReason, s.Options.Quiet, got.code, got.stderr, want)
			}
		}
		limit, code := strings.HasPrefix(c.rep.EndReason, "max_") || c.rep.EndReason == "idle", 0
		if limit {
			code = 124
		}
		if got := run(t, s, "true"); got.code != code {
			t.Errorf("%s, and the command exits with 0: exit code %d, want %d", c.rep.EndReason, got.code, code)
		}
	}
}

// What the command died of is said also if nothing was left over; not with quiet, nor of Ctrl-C.
func TestDied(t *testing.T) {
	st, err := proc.Stat(uint32(os.Getppid()))
	require.NoError(t, err)
	sender := func(kind, session string) *api.Sender {
		return &api.Sender{Signal: "SIGINT", Kind: kind, Process: &api.Process{
			Ref:  api.Ref{PID: int(st.PID), StartNS: api.U64(st.Start) * api.U64(procfs.Tick)},
			Comm: "x", Session: session,
		}}
	}
	gone := sender("process", "")
	gone.Process.StartNS++
	gone.Process.PID = 1 << 30
	const died, outside = "lineage: sh (9) was killed by SIGINT ", "; it is in no session, its parents are "
	for _, c := range []struct {
		by   *api.Sender
		want string
	}{
		{sender("process", "k3x9q2"), fmt.Sprintf(died+"from %d x, a member of this session\n", st.PID)},
		{sender("process", ""), fmt.Sprintf(died+"from %d x%s%d ", st.PID, outside, st.Parent)},
		{gone, died + "from 1073741824 x; it is in no session\n"},
		{&api.Sender{Signal: "SIGKILL", Kind: "oom"}, "lineage: sh (9) was killed by the OOM killer\n"},
		{&api.Sender{Signal: "SIGINT", Kind: "kernel"}, ""},
		{nil, died[:len(died)-1] + "; the sender is not known\n"},
	} {
		s := script{Verdict: receipt("clean")}
		s.Verdict.Root = &api.Death{Process: api.Process{Ref: api.Ref{PID: 9}, Comm: "sh",
			Session: "k3x9q2", Signal: "SIGINT", Killer: c.by}}
		got := run(t, s, "true").stderr
		more := strings.HasSuffix(c.want, " ") && strings.HasPrefix(got, c.want)
		if got != c.want && !more {
			t.Errorf("%q, want %q", got, c.want)
		}
		s.Options.Quiet = true
		require.Equal(t, run(t, s, "true").stderr, "")
	}
}

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "lineage:   %d sleep %d  SIGTERM\n", 100+i, i)
	}
	return b.String()
}

func TestOnExitReport(t *testing.T) {
	node := func(pid int, state api.ProcessState, argv ...string) api.Node {
		return api.Node{Process: api.Process{Ref: api.Ref{PID: pid}, Argv: argv, State: state}}
	}
	s := script{
		Verdict: &api.Report{Session: "k3x9q2", State: "active"},
		Alive:   &api.Tree{Nodes: []api.Node{node(1000001, "exited", "sh"), node(1000002, "live", "sleep", "9"), node(1000003, "zombie", "x")}},
	}
	s.Options.OnExit = OnExitReport
	s.Options.Report = filepath.Join(t.TempDir(), "r.json")
	got := run(t, s, "true")
	const want = "lineage: session k3x9q2: 1 process was left over when true exited; nothing was ended: the session continues with 1 process\n" +
		"lineage:   1000002 sleep 9  still alive: --on-exit report\n"
	if got.code != 0 || got.stderr != want {
		t.Errorf("got %+v, want stderr %q", got, want)
	}
	if rep := readReport(t, s.Options.Report); rep.Verdict != "left" || rep.Left != 1 || len(rep.Processes) != 1 {
		t.Errorf("receipt %+v", rep)
	}
}

func readReport(t *testing.T, name string) api.Report {
	t.Helper()
	b := require.ReadFile(t, name)
	var rep api.Report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	return rep
}

func TestLostDaemon(t *testing.T) {
	t.Run("back again", func(t *testing.T) {
		s := script{DiesOnce: true, Lose: 1, Log: filepath.Join(t.TempDir(), "log"), Verdict: receipt("clean", over(5, "term", "x"))}
		got := run(t, s, "true")
		if got.code != 0 || !strings.Contains(got.stderr, "ended, clean") {
			t.Errorf("got %+v", got)
		}
		require.Equal(t, verbs(s.Log), "connect create dial create report dial report")
	})
	t.Run("for good", func(t *testing.T) {
		s := script{Lose: 1, Gone: true, Log: filepath.Join(t.TempDir(), "log")}
		s.Options.Report = filepath.Join(t.TempDir(), "r.json")
		got := run(t, s, "sh", "-c", "exit 6")
		if got.code != 6 || !strings.HasPrefix(got.stderr, "lineage: session k3x9q2: ended, unknown: ") || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("got %+v", got)
		}
		require.Equal(t, verbs(s.Log), "connect create report dial dial dial connect")
		if rep := readReport(t, s.Options.Report); rep.Verdict != "unknown" || rep.Session != "k3x9q2" {
			t.Errorf("receipt %+v", rep)
		}
	})
}

// verbs are the calls of the daemon so far, in order.
func verbs(log string) string {
	b, _ := os.ReadFile(log)
	var names []string
	for line := range strings.Lines(string(b)) {
		names = append(names, strings.Fields(line)[0])
	}
	return strings.Join(names, " ")
}

// While leftovers are being ended, one Ctrl-C means "now", a second one gives up.
func TestNow(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		s := script{UntilEnd: true, GraceSecs: 60, Log: filepath.Join(t.TempDir(), "log"), Verdict: receipt("clean", over(5, "kill", "x"))}
		p := start(t, runCmd(t, s, "true"))
		require.Eventually(t, "the end is followed", func() bool { return strings.HasSuffix(verbs(s.Log), "report") })
		p.signal(unix.SIGINT)
		if got := p.wait(); got.code != 0 || !strings.Contains(got.stderr, "5 x  SIGKILL\n") {
			t.Errorf("got %+v", got)
		}
		if b, _ := os.ReadFile(s.Log); !strings.Contains(string(b), "end k3x9q2 now=true\n") {
			t.Errorf("calls:\n%s", b)
		}
	})
	t.Run("twice", func(t *testing.T) {
		s := script{UntilEnd: true, Deaf: true, GraceSecs: 60, Log: filepath.Join(t.TempDir(), "log")}
		p := start(t, runCmd(t, s, "true"))
		require.Eventually(t, "the end is followed", func() bool { return strings.HasSuffix(verbs(s.Log), "report") })
		p.signal(unix.SIGTERM)
		require.Eventually(t, "it is hurried", func() bool { return strings.HasSuffix(verbs(s.Log), "end") })
		p.signal(unix.SIGTERM)
		if got := p.wait(); got.code != 0 || !strings.Contains(got.stderr, "no proof that nothing is left: the wait was interrupted") {
			t.Errorf("got %+v", got)
		}
	})
}

// A signal before the command starts cancels it.
func TestCalledOff(t *testing.T) {
	for last, s := range map[string]script{"connect": {NoAnswer: true}, "create": {HoldUp: true}} {
		t.Run(last, func(t *testing.T) {
			s.Log = filepath.Join(t.TempDir(), "log")
			p := start(t, runCmd(t, s, "echo", "never"))
			require.Eventually(t, last+" is asked for", func() bool { return strings.HasSuffix(verbs(s.Log), last) })
			require.Eventually(t, "the root is called like our program", func() bool {
				_, root, created := strings.Cut(string(require.ReadFile(t, s.Log)), `"pid":`)
				pid, _, _ := strings.Cut(root, "}")
				comm, _ := os.ReadFile("/proc/" + pid + "/comm")
				return !created || string(comm) == filepath.Base(self(t))+"\n"
			})
			p.signal(unix.SIGTERM)
			if got := p.wait(); got.code != 143 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
}
