//go:build linux

package agents

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

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
	at := *x.Instance
	dir, err := os.MkdirTemp(x.Dir, "t")
	require.NoError(x.T, err)
	at.Dir = dir
	return at.TerminalOf(140, 45, x.commandAgain(name, flags, append([]string{x.bin}, args...)...)...)
}

// TestSharedServer: on a terminal codex lets a server that outlives it run its tool calls. The server of the first session leaves
// it for the second, and ends with that: the end of one codex does not take another's work. Each session says that its work is not
// in it, also if the server is in none. With --no-daemon each terminal has its own.
func TestSharedServer(t *testing.T) {
	x := newTrial(t, codex, true)
	x.Daemon()
	x.file("server.js", server)
	leave := model.Run("unlink up; " + apart("node server.js") + "; until [ -e up ]; do sleep 0.1; done")
	x.script(leave, model.Say("all done"), leave, model.Say("all done"))
	x.configure()
	unfound := func(said string, code int) {
		text := strings.ReplaceAll(said, " ", "") // the terminal breaks lines within words
		if !strings.Contains(text, "itssharedserverisnotinthissession;use--no-daemon") || !strings.Contains(text, fmt.Sprint("lngtest-after", code)) {
			t.Error(said)
		}
	}
	one, two := x.terminal(1, "one"), x.terminal(2, "two")
	x.Until("session of the server", func() bool { return x.why(x.running("--managed-daemon")[0]).Shared == "codex" })
	unfound(x.leave(one), 123) // what keeps the server up to date is left over
	two.Type("again")
	two.See("second turn", func(string) bool { return len(x.running("node server.js")) == 3 }, "Enter")
	unfound(x.leave(two), 125)
	x.over([]string{"node server.js"})

	x.traced = false
	x.leave(x.terminal(4, ""))
	x.traced = true
	unfound(x.leave(x.terminal(5, "asks")), 125)
	one, two = x.terminal(6, "alone", "--no-daemon"), x.terminal(7, "beside", "--no-daemon")
	x.leave(one)
	if s := x.Session("beside"); s.Live != 3 {
		t.Errorf("%+v", s)
	}
	x.leave(two)
	for _, name := range []string{"alone", "beside"} {
		if r := x.receipt(name); len(r.Delegated) > 0 || named(r, "server.js") != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if n := len(x.running("node server.js")); n != 2 { // of the shared server
		t.Errorf("%d servers live", n)
	}
	x.bystander.MustBeUntouched()
}
