package hook

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Whichever hook learns that its agent is in no session opens one.
func TestAdopts(t *testing.T) {
	for _, name := range events {
		f := newFake(inClaude, "")
		if message := f.call(t, name); message != "" {
			t.Errorf("%s: %q", name, message)
		}
		want := api.NewSession{Root: api.Ref{PID: 40, StartNS: 7}, Adopt: true, Name: "claude-code-40"}
		if len(f.Got.Created) != 1 || f.Got.Created[0] != want {
			t.Errorf("%s created %+v, want %+v", name, f.Got.Created, want)
		}
		begins := name == "PreToolUse" || name == "BeforeTool"
		if begins != (len(f.Got.Marks) == 1) || begins && (f.Got.Marks[0].Phase != api.PhaseBegin || f.Got.Marks[0].ID != "one" || f.Got.Marks[0].Agent.PID != 40) {
			t.Errorf("%s marked %+v", name, f.Got.Marks)
		}
	}
}

// An agent that is in a session is left where it is. A new prompt only ends the calls that the user has interrupted.
func TestInSession(t *testing.T) {
	for _, name := range events {
		f := newFake(inClaude, "older1")
		if message := f.call(t, name); message != "" || len(f.Got.Created) > 0 || !f.Got.Closed {
			t.Errorf("%s created %+v and the message %q, closed %v", name, f.Got.Created, message, f.Got.Closed)
		}
		want := []api.MarkRequest{{Phase: api.PhaseEnd, Agent: api.Ref{PID: 40, StartNS: 7}}}
		if slices.Contains(prompts, name) && (!slices.Equal(f.Got.Marks, want) || f.Got.Sessions > 0) {
			t.Errorf("%s marked %+v", name, f.Got.Marks)
		}
	}
}

// Nothing but the agent itself becomes a session's root. Above a hook that a user calls by hand
// is what runs everything else of that user.
func TestStrangers(t *testing.T) {
	for what, above := range map[string][]api.Process{
		"tmux":             {process(30, "bash", "bash"), process(20, "tmux: server", "tmux", "new", "-s", "claude"), process(1, "systemd")},
		"a name":           {process(30, "bash", "-bash"), process(20, "su", "su", "claude"), process(10, "sshd", "sshd: claude@pts/0")},
		"a directory":      {process(30, "zsh", "-zsh"), {Ref: api.Ref{PID: 20}, Comm: "screen", Exe: "/home/claude/bin/screen", Argv: []string{"SCREEN"}}},
		"another agent":    {process(30, "sh"), process(20, "codex", "codex"), process(10, "node", "node", "/usr/bin/codex")},
		"another script":   {process(30, "sh"), process(20, "node", "node", "worker.js", "claude")},
		"only shells":      {process(30, "sh"), process(20, "bash", "/usr/bin/claude-wrapper")},
		"nothing above it": nil,
	} {
		for _, name := range events {
			f := newFake(above, "")
			message := f.call(t, name)
			if len(f.Got.Created) > 0 {
				t.Errorf("%s: %s created %+v", what, name, f.Got.Created)
			}
			shows := name == "SessionStart" && above != nil && what != "only shells"
			if shows != strings.Contains(message, "no program of this agent") || !shows && message != "" {
				t.Errorf("%s: %s: the message %q", what, name, message)
			}
		}
		f := newFake(above, "older1") // of "lineage run", with an agent of another name
		if message := f.call(t, "SessionStart"); message != "" {
			t.Errorf("%s in a session: %q", what, message)
		}
	}
}

// An agent that was started by an agent, or through a program in between, is the one that calls.
func TestNearest(t *testing.T) {
	for what, above := range map[string][]api.Process{
		"nested":      {process(41, "sh"), process(40, "claude"), process(31, "bash"), process(30, "claude")},
		"in another":  {process(40, "claude"), process(31, "bash"), process(30, "codex")},
		"in between":  {process(42, "timeout", "timeout", "9", "sh"), process(41, "sh"), process(40, "claude")},
		"by its path": {{Ref: api.Ref{PID: 40}, Comm: "2.1.330", Exe: "/home/u/.local/share/claude/versions/2.1.330 (deleted)"}},
		"npm's":       {{Ref: api.Ref{PID: 40}, Comm: "claude.exe", Exe: "/usr/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"}},
		"a script":    {process(40, "node", "/usr/bin/node", "--max-old-space-size=8192", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "-p", "x")},
	} {
		f := newFake(above, "")
		if message := f.call(t, "PreToolUse"); message != "" || len(f.Got.Created) != 1 || f.Got.Created[0].Root.PID != 40 ||
			len(f.Got.Marks) != 1 || f.Got.Marks[0].Agent.PID != 40 {
			t.Errorf("%s: created %+v, marked %+v, message %q", what, f.Got.Created, f.Got.Marks, message)
		}
	}
	other, known := Find("goose")
	f := newFake([]api.Process{process(41, "sh"), process(40, "goose")}, "")
	if f.call(t, "SessionStart", func(h *Hook) { h.Agent = other }); known || len(f.Got.Created) != 1 || f.Got.Created[0].Name != "goose-40" {
		t.Errorf("goose, known %v: %+v", known, f.Got.Created)
	}
}

// Calls in parallel have a hook each. One adopts the agent, and no call is lost. None asks for ever.
func TestTogether(t *testing.T) {
	f := newFake(inClaude, "")
	f.busy = 3
	if message := f.call(t, "PreToolUse"); message != "" || len(f.Got.Created) > 0 || len(f.Got.Marks) != 1 {
		t.Errorf("created %+v, marked %+v, message %q", f.Got.Created, f.Got.Marks, message)
	}
	f.busy, f.member = 1000, ""
	if f.call(t, "PreToolUse"); 1000-f.busy != 2+mostMissed {
		t.Errorf("it has asked %d times", 1000-f.busy)
	}
}

// If the daemon refuses, the user hears why, once for each start.
func TestRefused(t *testing.T) {
	for _, name := range events {
		f := newFake(inClaude, "")
		f.Refuse = api.NewError(api.CodeTooMany, "uid 1000 has 2048 sessions", "end some")
		message := f.call(t, name)
		if start := name == "SessionStart"; start != strings.Contains(message, "claude-code is not tracked: uid 1000 has 2048 sessions") || !start && message != "" {
			t.Errorf("%s: %q", name, message)
		}
	}
}

// After a turn the hook names what listens in the agent's session, and in no other, and says how to
// end that without the agent.
func TestSum(t *testing.T) {
	holder := func(pid int, session string) api.Why {
		w := api.Why{Process: process(pid, "node", "node", "server.js")}
		if session != "" {
			w.Session = &api.Session{ID: session}
		}
		return w
	}
	f := newFake(inClaude, "mine00")
	f.Has.Sessions = []api.Session{{ID: "mine00", Ports: []int{8080, 8081}}}
	f.On.Why = func(string) (*api.Why, error) { // the agent was started by an editor, which listens as well
		return &api.Why{Edges: []api.Edge{{Child: process(40, "claude")}, {Child: process(30, "editor")}}}, nil
	}
	f.On.WhyPort = func(_ string, port int) (*api.Holders, error) {
		if port != 8080 {
			return &api.Holders{Items: []api.Why{holder(70, "mine00"), holder(60, "mine00")}}, nil
		}
		worker := holder(63, "mine00")
		worker.Edges = []api.Edge{{Child: worker.Process}, {Child: process(60, "node")}, {Child: process(40, "claude")}}
		return &api.Holders{Items: []api.Why{
			worker, holder(60, "mine00"), holder(61, "other0"), holder(62, ""), holder(40, "mine00"), holder(30, "mine00"),
		}}, nil
	}
	want := "lineage: still running: node server.js (PID 60) listens on port 8080; node server.js (PID 70) listens on port 8081; " +
		"node server.js (PID 60) listens on port 8081. Keep it, or end it: lineage end 60@7 --branch; lineage end 70@7 --branch"
	require.Equal(t, f.call(t, "Stop"), want)
	if len(f.Got.Marks) != 1 || f.Got.Marks[0].Phase != api.PhaseEnd || f.Got.Marks[0].ID != "" {
		t.Errorf("marked %+v: an interrupted call does not end", f.Got.Marks)
	}
	f.Has.Sessions[0].Ports = slices.Repeat([]int{8080}, mostPorts+2)
	require.Contains(t, f.call(t, "Stop"), "; 2 more ports are in use. Keep it")
	f.On.Why = func(string) (*api.Why, error) { return nil, api.NewError(api.CodeNotFound, "gone", "") }
	require.Equal(t, f.call(t, "Stop"), "") // the editor may be what it would offer to end
}

// What the agent's own calls have left is named with the command that ends it, and without one where
// calls were open at once. A port of it is not named again, and what is another agent's or kept not at all.
func TestSumOfCalls(t *testing.T) {
	ago := time.Now().Add(-8*time.Hour - 3*time.Second)
	call := func(agent int, ids ...string) (c api.CallLeft) {
		for _, id := range ids {
			c.Calls = append(c.Calls, api.Call{ID: id, Tool: "Bash", Agent: &api.Ref{PID: agent, StartNS: 7}, Began: &ago, Ended: &ago})
		}
		c.Ambiguous = len(ids) > 1
		return c
	}
	busy, both, kept := call(40, "tool'u"), call(40, "a", "b"), call(40, "kept")
	busy.CPUs, busy.Processes, busy.Commands, busy.Ports = 7, 39, []api.CallCommand{{Processes: 39, Comm: "yes"}}, []int{8080}
	both.Processes, both.Commands = 2, []api.CallCommand{{Processes: 1, Comm: "node"}}
	both.MoreRun, kept.Kept = 1, true
	f := newFake(inClaude, "mine00")
	f.Has.Sessions = []api.Session{{ID: "mine00", Ports: []int{8080}}}
	f.On.Why = func(string) (*api.Why, error) { return &api.Why{}, nil }
	f.On.WhyPort = func(string, int) (*api.Holders, error) {
		return &api.Holders{Items: []api.Why{{Process: process(60, "yes"), Session: &api.Session{ID: "mine00"}}}}, nil
	}
	f.Has.Orphans = &api.Orphans{Calls: []api.CallLeft{busy, both, kept, call(30, "other")}}
	want := "lineage: still running: call Bash tool'u, 8h0m ago, left 39 × yes, 7.0 CPUs, port 8080; " +
		`one of 2 calls (a or b), 8h0m ago, left 1 × node, 1 more. Keep it, or end it: lineage end --call 'tool'\''u' mine00`
	require.Equal(t, f.call(t, "Stop"), want)
	f.Has.Orphans.Calls = []api.CallLeft{both}
	f.Has.Sessions[0].Ports = nil
	require.Equal(t, f.call(t, "Stop"), `lineage: still running: one of 2 calls (a or b), 8h0m ago, left 1 × node, 1 more. What it is: "lineage ls --calls"`)
	f.Has.Orphans = &api.Orphans{Calls: slices.Repeat([]api.CallLeft{both}, mostCalls+1), MoreCalls: 2}
	if message := f.call(t, "Stop"); strings.Count(message, "one of 2 calls") != mostCalls || !strings.Contains(message, "; 3 more calls have live processes. ") {
		t.Error(message)
	}
}
