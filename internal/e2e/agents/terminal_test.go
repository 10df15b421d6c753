//go:build linux

package agents

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestInterrupted: a call that the user interrupts is over with the next prompt. What later calls leave is theirs alone,
// and can be ended alone; the agent's own hooks are of no call, and share one row of the tree, in which a shell shows its call's command.
func TestInterrupted(t *testing.T) {
	x := newTrial(t, claude, true)
	x.Daemon()
	x.file("server.js", server)
	x.script(model.Run(apart("node server.js one")+"; until [ -e up ]; do sleep 0.1; done; rm up; echo waiting >"+x.m.Path+"; sleep 300"),
		model.Run(apart("node server.js two")+"; until [ -e up ]; do sleep 0.1; done"), model.Say("all done"))
	x.configure()
	x.setup(claude.name, "--yes")
	screen := x.TerminalOf(160, 50, x.commandAgain("agent", nil, append([]string{x.bin}, claude.terminal("do it")...)...)...)
	x.m.Line("waiting", 1)
	screen.Press("Escape")
	screen.See("word of the interruption", func(s string) bool { return strings.Contains(s, "Interrupted") })
	screen.Type("go on")
	screen.Insist("second turn", func(string) bool { return len(x.running("server.js two")) == 1 }, "Enter")
	if said := screen.See("what is left", func(s string) bool { return strings.Contains(s, "still running") }); strings.Contains(said, "hook") {
		t.Error(said)
	}
	x.Agrees("calls", func() error {
		left := map[string]string{}
		for _, c := range stage.Query[api.Orphans](x.Instance, "ls", "--calls").Calls {
			left[c.Calls[0].ID] = fmt.Sprint(c.Ambiguous, c.Processes, c.Commands[0].Argv)
		}
		if got := fmt.Sprint(left); got != "map[toolu_0_0:false 1 [node server.js one] toolu_1_0:false 1 [node server.js two]]" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	tree := x.Must("tree", "agent", "--all").Out.String()
	for _, want := range []string{"lineage hook", "lineage hook claude-code ×", "bash -c '… (setsid node server.js two >/dev/null 2>&1 &); until"} {
		if n := strings.Count(tree, want); n == 0 || n > 1 && want == "lineage hook" {
			t.Errorf("%d × %s:\n%s", n, want, tree)
		}
	}
	x.Must("end", "--call", "toolu_1_0", "--yes")
	x.Until("end of the second server", func() bool { return len(x.running("server.js two")) == 0 })
	if len(x.running("server.js one")) != 1 || x.Session("agent").State != api.StateActive {
		t.Errorf("alive: %v", x.alive())
	}
	x.bystander.MustBeUntouched()
}

// terminal opens codex on a terminal; its one tool call leaves a server, the n-th.
func (x *trial) terminal(n int, name string, args ...string) *stage.Terminal {
	x.T.Helper()
	screen := x.screen(name, []string{"--leaks", "fail"}, append(append([]string{"--dangerously-bypass-approvals-and-sandbox"}, args...), "do it")...)
	x.m.Line("up", n)
	screen.See("answer", func(s string) bool { return strings.Contains(s, "all done") })
	return screen
}

// screen runs the agent on a terminal that has a tmux, and files, of its own.
func (x *trial) screen(name string, flags []string, args ...string) *stage.Terminal {
	x.T.Helper()
	at, err := *x.Instance, error(nil)
	at.Dir, err = os.MkdirTemp(x.Dir, "t")
	require.NoError(x.T, err)
	return at.TerminalOf(140, 45, x.commandAgain(name, flags, append([]string{x.bin}, args...)...)...)
}

// TestSharedServer: on a terminal codex lets a server that outlives it run its tool calls. A session that was not first says
// that they are not in it. With --no-daemon each terminal has its own, and the end of one leaves the other alone.
func TestSharedServer(t *testing.T) {
	x := shared(t)
	x.leave(x.terminal(1, ""))
	x.traced = true
	x.unfound(x.leave(x.terminal(2, "asks")), 125)
	one, two := x.terminal(3, "one", "--no-daemon"), x.terminal(4, "two", "--no-daemon")
	x.leave(one)
	if s := x.Session("two"); s.Live != 3 {
		t.Errorf("%+v", s)
	}
	x.leave(two)
	for _, name := range []string{"one", "two"} {
		if r := x.receipt(name); len(r.Brokered) > 0 || named(r, "server.js") != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if n := len(x.running("node server.js")); n != 2 { // of the shared server
		t.Errorf("%d servers live", n)
	}
	x.bystander.MustBeUntouched()
}

// TestSharedServerMoves: without --no-daemon, too, the end of one codex does not take another's work. The server of the first session
// leaves it for the second, and ends with that; each session says that its work is not in it.
func TestSharedServerMoves(t *testing.T) {
	x := shared(t)
	x.traced = true
	one, two := x.terminal(1, "one"), x.terminal(2, "two")
	x.Until("session of the server", func() bool { return x.why(x.running("--managed-daemon")[0]).Shared == "codex" })
	x.unfound(x.leave(one), 123) // what keeps the server up to date is left over
	if n := len(x.running("node server.js")); n != 2 {
		t.Errorf("%d servers live", n)
	}
	two.Type("again")
	two.Insist("second turn", func(string) bool { return len(x.running("node server.js")) == 3 }, "Enter")
	x.unfound(x.leave(two), 125)
	x.over([]string{"node server.js"})
	x.bystander.MustBeUntouched()
}

// shared is a trial of codex, whose call leaves a server.
func shared(t *testing.T) *trial {
	x := newTrial(t, codex, false)
	x.Daemon()
	x.file("server.js", server)
	leave := model.Run("unlink up; " + apart("node server.js") + "; until [ -e up ]; do sleep 0.1; done")
	x.script(leave, model.Say("all done"), leave, model.Say("all done"))
	x.configure()
	return x
}

// unfound demands that a session did not find what its codex has asked for.
func (x *trial) unfound(said string, code int) {
	x.T.Helper()
	if !strings.Contains(said, "its shared server is not in this session; use --no-daemon") || !strings.Contains(said, fmt.Sprint("lngtest-after ", code)) {
		x.T.Error(said)
	}
}
