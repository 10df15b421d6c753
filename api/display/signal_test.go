package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

func TestHowEnded(t *testing.T) {
	self := api.Ref{PID: 7, StartNS: 8}
	by := &api.Process{Ref: api.Ref{PID: 4242, StartNS: 1}, Comm: "pk\x1b", Session: "x"}
	for want, p := range map[string]api.Process{
		"exited":            {},
		"exited 3":          {ExitCode: new(3)},
		"killed by SIGKILL": {Signal: "SIGKILL"},
		`killed by SIGTERM from 4242 pk\x1b, session x`: {Signal: "SIGTERM", Killer: &api.Sender{Signal: "SIGTERM", Kind: "process", Process: by}},
		"killed by the OOM killer":                      {Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "oom"}},
		"killed by the OOM killer: memory limit 8GiB of session w\\x1b, it had 7.2GiB; peak 8GiB": {Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "oom",
			OOM: &api.OOM{Of: "session", Session: "k3x9q2", Name: "w\x1b", LimitBytes: 8 << 30, RSSBytes: 36 << 30 / 5, PeakBytes: 8 << 30}}},
		"killed by SIGHUP by the kernel: the terminal was closed, passed on by the session's owner": {Signal: "SIGHUP",
			Killer: &api.Sender{Signal: "SIGHUP", Kind: "kernel", Passed: true}},
		`killed by SIGHUP from 4242 pk\x1b, session x, passed on by the session's owner`: {Signal: "SIGHUP",
			Killer: &api.Sender{Signal: "SIGHUP", Kind: "process", Process: by, Passed: true}},
		"killed by SIGSEGV, its own fault":                {Signal: "SIGSEGV", Killer: &api.Sender{Signal: "SIGSEGV", Kind: "fault"}},
		"killed by SIGALRM, a timer's by its own account": {Signal: "SIGALRM", Killer: &api.Sender{Signal: "SIGALRM", Kind: "timer"}},
		"killed by SIGKILL by lineage":                    {Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "lineage"}},
		"killed by SIGABRT from itself": {Signal: "SIGABRT",
			Killer: &api.Sender{Signal: "SIGABRT", Kind: "process", Process: &api.Process{Ref: self}}},
		`exited 143 after SIGTERM from 4242 pk\x1b, session x, handled`: {ExitCode: new(143),
			Killer: &api.Sender{Signal: "SIGTERM", Kind: "process", Process: by, Handled: true}},
		`killed by SIGINT from 4242 pk\x1b, session x, handled and then sent to itself`: {Signal: "SIGINT",
			Killer: &api.Sender{Signal: "SIGINT", Kind: "process", Process: by, Handled: true, Raised: true}},
		"killed by SIGHUP by the kernel: its terminal was hung up, or its stopped job lost its shell": {
			Signal: "SIGHUP", Killer: &api.Sender{Signal: "SIGHUP", Kind: "kernel"},
		},
		`killed by SIGKILL because its tracer 4242 pk\x1b, session x, exited`: {
			Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "tracer", Process: by},
		},
		"killed by SIGKILL by a write to cgroup.kill by itself": {
			Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "cgroup_kill", Process: &api.Process{Ref: self}},
		},
		`killed by SIGTERM because its parent 4242 pk\x1b, a member of this session, exited (PDEATHSIG)`: {
			Session: "x", Signal: "SIGTERM", Killer: &api.Sender{Signal: "SIGTERM", Kind: "parent", Process: by},
		},
	} {
		p.Ref = self
		if got := HowEnded(&p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := Stopped(&api.Process{Stopped: &api.Sender{Signal: "SIGSTOP", Kind: "process",
		Process: by}}), `stopped by SIGSTOP from 4242 pk\x1b, session x`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDeath: what is said of a command that failed, and of others nothing.
func TestDeath(t *testing.T) {
	root := api.Process{Ref: api.Ref{PID: 7, StartNS: 8}, Comm: "s\x1bh", Session: "x"}
	node := &api.Process{Ref: api.Ref{PID: 9}, Comm: "node", Creator: &root.Ref, Session: "x", Signal: "SIGKILL",
		Killer: &api.Sender{Signal: "SIGKILL", Kind: "oom"}}
	other := *node
	other.Creator = &node.Ref
	for _, c := range []struct {
		code         int
		signal, kind string
		after        *api.Process
		whole        bool
		want         string
	}{
		{},
		{after: node, want: `9 node was killed by the OOM killer`},
		{code: 3, whole: true},
		{code: 3, after: node, want: `s\x1bh exited 3; 9 node, its child, was killed by the OOM killer`},
		{code: 137, after: &other, want: `s\x1bh exited 137; 9 node, a member of its session, was killed by the OOM killer`},
		{code: 137, whole: true, want: `s\x1bh exited 137 on its own`},
		{code: 137, want: `s\x1bh exited 137; not all deaths before it are known`},
		{code: 255, whole: true},
		{code: 143, kind: "kernel", after: node, want: `s\x1bh (7) exited 143 after SIGTERM by the kernel`},
		{signal: "SIGTERM", want: `s\x1bh (7) was killed by SIGTERM; the sender is not known`},
		{signal: "SIGTERM", kind: "kernel", want: `s\x1bh (7) was killed by SIGTERM by the kernel`},
		{signal: "SIGTERM", kind: "lineage"},
	} {
		d := api.Death{Process: root, After: c.after, Whole: c.whole}
		if d.Signal = c.signal; d.Signal == "" {
			d.ExitCode = &c.code
		}
		if c.kind != "" {
			d.Killer = &api.Sender{Signal: "SIGTERM", Kind: c.kind}
		}
		if got := Death(&d); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestCrossing(t *testing.T) {
	to := &api.Process{Ref: api.Ref{PID: 42}, Comm: "d\x1bb"}
	if got, want := Crossing(&api.Crossing{Signal: "SIGTERM", To: to}), `SIGTERM to 42 d\x1bb`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	to.Session = "x"
	if got, want := Crossing(&api.Crossing{Signal: "SIGKILL", To: to, Refused: true}), `SIGKILL to 42 d\x1bb, session x, refused`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	ev := &api.Event{Crossing: &api.Crossing{Signal: "SIGKILL", To: to}, Process: &api.Process{Calls: []api.Call{{ID: "c", Tool: "Bash"}}}}
	require.Equal(t, About(ev, nil), `SIGKILL to 42 d\x1bb, session x; tool call Bash c (claimed)`)
}

// TestSentOn: lineage's signal that a process handled, and sent to itself, is still lineage's, in the same words.
func TestSentOn(t *testing.T) {
	self := api.Ref{PID: 7, StartNS: 1}
	for want, o := range map[string]api.Outcome{
		"SIGTERM by lineage, handled and then sent to itself": {Outcome: api.OutcomeTerm,
			Killer: &api.Sender{Signal: "SIGTERM", Kind: "lineage", Handled: true, Raised: true}},
		"SIGABRT from itself; sent SIGTERM by lineage": {Outcome: api.OutcomeTerm,
			Killer: &api.Sender{Signal: "SIGABRT", Kind: "process", Process: &api.Process{Ref: self}}},
	} {
		if o.Ref = self; Outcome(&o) != want {
			t.Errorf("%q, want %q", Outcome(&o), want)
		}
	}
}
