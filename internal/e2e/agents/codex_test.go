//go:build linux

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// terminal opens codex on a terminal; its one tool call leaves a server, the n-th.
func (x *trial) terminal(n int, name string, flags []string, args ...string) *stage.Terminal {
	x.T.Helper()
	args = append(append([]string{x.bin, "--dangerously-bypass-approvals-and-sandbox"}, args...), "do it")
	at := *x.Instance // each terminal has a tmux, and files, of its own
	at.Dir = filepath.Join(x.Dir, fmt.Sprint("terminal", n))
	require.NoError(x.T, os.Mkdir(at.Dir, 0o755))
	screen := at.TerminalOf(140, 45, x.commandAgain(name, flags, args...)...)
	x.m.Line("up", n)
	screen.See("answer", func(s string) bool { return strings.Contains(s, "all done") })
	return screen
}

func quit(screen *stage.Terminal) {
	screen.T.Helper()
	screen.Insist("end of codex", func(s string) bool { return strings.Contains(s, "lngtest-after") }, "C-d")
}

// TestSharedServer: on a terminal codex lets a server that outlives it run its tool calls. A session that was not first says
// that they are not in it. With --no-daemon each terminal has its own, and the end of one leaves the other alone.
func TestSharedServer(t *testing.T) {
	x := newTrial(t, codex, true)
	x.Daemon()
	x.file("server.js", server)
	x.script(model.Run("unlink up; "+apart("node server.js")+"; until [ -e up ]; do sleep 0.1; done"), model.Say("all done"))
	x.configure()
	x.traced = false
	quit(x.terminal(1, "", nil))
	x.traced = true
	asks := x.terminal(2, "asks", []string{"--leaks", "fail"})
	quit(asks)
	if said := strings.Join(strings.Fields(asks.Screen()), " "); !strings.Contains(said, "its shared server is not in this session; use --no-daemon") || !strings.Contains(said, "lngtest-after 125") {
		t.Error(asks.Screen())
	}
	if n := len(x.running("node server.js")); n != 2 {
		t.Errorf("%d servers live", n)
	}
	one := x.terminal(3, "one", []string{"--leaks", "fail"}, "--no-daemon")
	two := x.terminal(4, "two", []string{"--leaks", "fail"}, "--no-daemon")
	quit(one)
	if s := x.Session("two"); s.Live != 3 {
		t.Errorf("%+v", s)
	}
	quit(two)
	for _, name := range []string{"one", "two"} {
		if r := x.receipt(name); len(r.Brokered) > 0 || named(r, "server.js") != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if n := len(x.running("node server.js")); n != 2 {
		t.Errorf("%d servers live", n)
	}
	x.bystander.MustBeUntouched()
}
