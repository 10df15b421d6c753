package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

func TestHowEnded(t *testing.T) {
	self := api.Ref{PID: 7, StartNS: 8}
	by := &api.Process{Ref: api.Ref{PID: 4242, StartNS: 1}, Comm: "pk\x1b", Session: "x"}
	for want, p := range map[string]api.Process{
		"exited":            {},
		"exited 3":          {ExitCode: new(3)},
		"killed by SIGKILL": {Signal: "SIGKILL"},
		`killed by SIGTERM from 4242 pk\x1b, session x`:                                             {Signal: "SIGTERM", Killer: &api.Sender{Signal: "SIGTERM", Kind: "process", Process: by}},
		"killed by SIGKILL by the OOM killer":                                                       {Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "oom"}},
		"killed by SIGHUP by the kernel":                                                            {Signal: "SIGHUP", Killer: &api.Sender{Signal: "SIGHUP", Kind: "kernel"}},
		"killed by SIGHUP by the kernel: the terminal was closed, passed on by the session's owner": {Signal: "SIGHUP", Killer: &api.Sender{Signal: "SIGHUP", Kind: "kernel", Passed: true}},
		`killed by SIGHUP from 4242 pk\x1b, session x, passed on by the session's owner`:            {Signal: "SIGHUP", Killer: &api.Sender{Signal: "SIGHUP", Kind: "process", Process: by, Passed: true}},
		"killed by SIGSEGV, its own fault":                                                          {Signal: "SIGSEGV", Killer: &api.Sender{Signal: "SIGSEGV", Kind: "fault"}},
		"killed by SIGALRM, a timer's by its own account":                                           {Signal: "SIGALRM", Killer: &api.Sender{Signal: "SIGALRM", Kind: "timer"}},
		"killed by SIGKILL by lineage":                                                              {Signal: "SIGKILL", Killer: &api.Sender{Signal: "SIGKILL", Kind: "lineage"}},
		"killed by SIGABRT from itself":                                                             {Signal: "SIGABRT", Killer: &api.Sender{Signal: "SIGABRT", Kind: "process", Process: &api.Process{Ref: self}}},
		`exited 143 after SIGTERM from 4242 pk\x1b, session x, handled`:                             {ExitCode: new(143), Killer: &api.Sender{Signal: "SIGTERM", Kind: "process", Process: by, Handled: true}},
		`killed by SIGINT from 4242 pk\x1b, session x, handled and then sent to itself`:             {Signal: "SIGINT", Killer: &api.Sender{Signal: "SIGINT", Kind: "process", Process: by, Handled: true, Raised: true}},
	} {
		p.Ref = self
		if got := HowEnded(&p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := Stopped(&api.Process{Stopped: &api.Sender{Signal: "SIGSTOP", Kind: "process", Process: by}}), `stopped by SIGSTOP from 4242 pk\x1b, session x`; got != want {
		t.Errorf("%q, want %q", got, want)
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
}

// TestSentOn: lineage's signal that a process handled, and sent to itself, is still lineage's, in the same words.
func TestSentOn(t *testing.T) {
	self := api.Ref{PID: 7, StartNS: 1}
	for want, o := range map[string]api.Outcome{
		"SIGTERM by lineage, handled and then sent to itself": {Outcome: api.OutcomeTerm, Killer: &api.Sender{Signal: "SIGTERM", Kind: "lineage", Handled: true, Raised: true}},
		"SIGABRT from itself; sent SIGTERM by lineage":        {Outcome: api.OutcomeTerm, Killer: &api.Sender{Signal: "SIGABRT", Kind: "process", Process: &api.Process{Ref: self}}},
	} {
		if o.Ref = self; Outcome(&o) != want {
			t.Errorf("%q, want %q", Outcome(&o), want)
		}
	}
}
