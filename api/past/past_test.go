package past

import (
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

var (
	shell, child, server = api.Ref{PID: 10, StartNS: 100}, api.Ref{PID: 9, StartNS: 200}, api.Ref{PID: 8, StartNS: 300}
	noon                 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// TestApply: a process is as its events leave it.
func TestApply(t *testing.T) {
	all := Processes{}
	apply := func(kind api.EventType, p api.Process) *api.Process {
		return all.Apply(&api.Event{Type: kind, Process: &p, Session: "k3x9q2", Time: &noon, To: &shell})
	}
	apply("", api.Process{Ref: shell, Comm: "sh", Exe: "/bin/sh", Argv: []string{"sh", "-c"}, ArgvTruncated: true}) // of a snapshot
	if p := apply("fork", api.Process{Ref: child, Comm: "sh", Creator: &shell}); p.Exe != "/bin/sh" || len(p.Argv) != 2 || !p.ArgvTruncated ||
		p.State != api.StateLive || p.Session != "k3x9q2" {
		t.Errorf("a fork runs its creator's program: %+v", p)
	}
	if p := apply("fork", api.Process{Ref: server, Comm: "renamed", Creator: &shell}); p.Exe != "" || p.Argv != nil {
		t.Errorf("it has another name: %+v", p)
	}
	if p := apply("exec", api.Process{Ref: child, Exe: "/bin/cc"}); p.Comm != "sh" || p.Exe != "/bin/cc" || p.Argv != nil || p.ArgvTruncated {
		t.Errorf("exec: %+v", p)
	}
	if p := apply("reparent", api.Process{Ref: child}); *p.Parent != shell {
		t.Errorf("reparent: %+v", p)
	}
	if p := apply("exit", api.Process{Ref: child, State: api.StateZombie, Signal: "SIGKILL"}); p.State != api.StateZombie || p.Signal != "SIGKILL" || *p.Exited != noon {
		t.Errorf("exit: %+v", p)
	}
	if p := apply("reaped", api.Process{Ref: child}); p.State != api.StateExited || p.Signal != "SIGKILL" {
		t.Errorf("reaped: %+v", p)
	}
	if p := apply("exit", api.Process{Ref: api.Ref{PID: 7, StartNS: 1}, ExitCode: new(3)}); p.State != api.StateExited || *p.ExitCode != 3 {
		t.Errorf("the exit of a process that was not known: %+v", p)
	}
	var pids []int
	for _, p := range all.Sorted() {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, []int{7, 10, 9, 8}) {
		t.Errorf("by their starts: %v", pids)
	}
}

// TestCreator: a process has no creator that is not known, that is itself, or that is younger.
func TestCreator(t *testing.T) {
	all := Processes{shell: {Ref: shell}, server: {Ref: server}}
	for creator, known := range map[*api.Ref]bool{nil: false, &shell: true, &child: false, &server: false, new(api.Ref{PID: 1}): false} {
		if c := all.Creator(&api.Process{Ref: child, Creator: creator}); (c != nil) != known {
			t.Errorf("%v: %+v", creator, c)
		}
	}
}

// TestAdvance: a session keeps its name, its reason and when it ended.
func TestAdvance(t *testing.T) {
	s := &api.Session{}
	later := noon.Add(time.Second)
	for _, ev := range []api.Event{
		{State: api.StateActive, Name: "build"}, {State: api.StateEnding, Reason: "end"}, {State: api.StateEnded, Time: &noon}, {State: api.StateEnded, Time: &later},
	} {
		Advance(s, &ev)
	}
	if s.Name != "build" || s.State != api.StateEnded || s.EndReason != "end" || *s.Ended != noon {
		t.Errorf("%+v", s)
	}
}
