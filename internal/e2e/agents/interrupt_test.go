//go:build linux

package agents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestInterrupted: a call that the user interrupts is over with the next prompt. What later calls leave is theirs alone,
// and can be ended alone; the agent's own hooks are of no call, and share one row of the tree.
func TestInterrupted(t *testing.T) {
	x := newTrial(t, claude, true)
	x.Daemon()
	x.file("server.js", server)
	x.script(model.Run(apart("node server.js one")+"; until [ -e up ]; do sleep 0.1; done; rm up; echo waiting >"+x.m.Path+"; sleep 300"),
		model.Run(apart("node server.js two")+"; until [ -e up ]; do sleep 0.1; done"), model.Say("all done"))
	command := x.command("agent", nil, append([]string{x.bin}, x.agent.terminal("do it")...)...)
	x.setup(claude.name, "--yes")
	screen := x.TerminalOf(160, 50, command...)
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
		if fmt.Sprint(left) != "map[toolu_0_0:false 1 [node server.js one] toolu_1_0:false 1 [node server.js two]]" {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if tree := x.Must("tree", "agent", "--all").Out.String(); strings.Count(tree, "lineage hook") != 1 || !strings.Contains(tree, "lineage hook claude-code ×") {
		t.Errorf("the hooks have rows of their own:\n%s", tree)
	} else if !strings.Contains(tree, "bash -c '… (setsid node server.js two >/dev/null 2>&1 &); until") {
		t.Errorf("no shell shows the command of its call:\n%s", tree)
	}
	x.Must("end", "--call", "toolu_1_0", "--yes")
	x.Until("end of the second server", func() bool { return len(x.running("server.js two")) == 0 })
	if len(x.running("server.js one")) != 1 || x.Session("agent").State != api.StateActive {
		t.Errorf("alive: %v", x.alive())
	}
	x.bystander.MustBeUntouched()
}
