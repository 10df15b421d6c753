//go:build linux

package agents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// endings are the ways in which a user's work with an agent on a terminal ends.
var endings = map[string]func(*trial, *stage.Terminal){
	"exit": func(x *trial, s *stage.Terminal) { x.leave(s) },
	"interrupted": func(x *trial, s *stage.Terminal) {
		if x.agent == claude {
			x.tidy(s)
		}
		x.leave(s)
	},
	"Ctrl-C twice": func(x *trial, s *stage.Terminal) {
		if x.agent != opencode { // its word of what is left does not stay
			s.See("end of the turn", left)
		}
		s.Press("C-c", "C-c")
		s.See("end by Ctrl-C", gone)
	},
	"SIGKILL":         (*trial).murder,
	"closed terminal": func(_ *trial, s *stage.Terminal) { s.Close() },
	"restart": func(x *trial, s *stage.Terminal) {
		x.murder(s)
		x.leave(x.works("again", false))
	},
}

func gone(screen string) bool { return strings.Contains(screen, "lngtest-after") }
func left(screen string) bool { return strings.Contains(screen, "still running") }

// leave types what ends the agent, and returns what is then on the terminal.
func (x *trial) leave(s *stage.Terminal) string {
	key := "C-d"
	if x.agent.quit != "" {
		s.Type(x.agent.quit)
		key = "Enter"
	}
	return strings.Join(strings.Fields(s.See("end of the agent", gone, key)), " ")
}

func (x *trial) murder(s *stage.Terminal) {
	x.kill(x.Session("agent").Root.PID)
	s.See("end of the agent", gone)
}

// works has the agent make two calls on a terminal, each of which leaves a server. The first one is interrupted, or both return.
func (x *trial) works(name string, interrupted bool) *stage.Terminal {
	x.T.Helper()
	n := len(x.m.Lines("up"))
	s := x.screen(name, nil, x.agent.terminal("do it")...)
	if interrupted {
		x.m.Line("waiting", 1)
		if s.Press("Escape"); x.agent == opencode {
			s.Press("Escape")
		}
		s.See("end of the call", func(s string) bool { return len(x.running("sleep 300")) == 0 || strings.Contains(s, "nterrupted") })
		s.Type("go on")
		s.See("second turn", func(string) bool { return len(x.running("server.js two")) == 1 }, "Enter")
	}
	x.m.Line("up", n+2)
	s.See("answer", func(s string) bool { return strings.Contains(s, "all done") })
	x.Agrees("calls", func() error {
		found := map[string]*api.Call{}
		for _, c := range stage.Query[api.Orphans](x.Instance, "ls", "--calls").Calls {
			for _, run := range c.Commands {
				if len(run.Argv) == 3 {
					found[fmt.Sprint(len(c.Calls), run.Processes, run.Argv)] = &c.Calls[0]
				}
			}
		}
		one, two := found["1 1 [node server.js one]"], found["1 1 [node server.js two]"]
		if len(found) != 2 || one == nil || two == nil || !one.Began.Before(*two.Began) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	return s
}

// tidy demands that hooks are of no call, and share one row of the tree, in which a shell shows its call's command; and that what
// a call has left can be ended alone.
func (x *trial) tidy(s *stage.Terminal) {
	if said := s.See("what is left", left); strings.Contains(said, "hook") {
		x.T.Error(said)
	}
	tree := x.Must("tree", "agent", "--all").Out.String()
	for _, want := range []string{"lineage hook", "lineage hook claude-code ×", "bash -c '… unlink up; (setsid node server.js two"} {
		if n := strings.Count(tree, want); n == 0 || n > 1 && want == "lineage hook" {
			x.T.Errorf("%d × %s:\n%s", n, want, tree)
		}
	}
	x.Must("end", "--call", "toolu_1_0", "--yes")
	x.Until("end of the second server", func() bool { return len(x.running("server.js two")) == 0 })
	if len(x.running("server.js one")) != 1 || x.Session("agent").State != api.StateActive {
		x.T.Errorf("alive: %v", x.alive())
	}
}

// TestEndings: whatever ends an agent's work, each process that its calls left is under its own call before, and none lives
// after. LNGTEST_ROUNDS repeats it.
func TestEndings(t *testing.T) {
	for n := range stage.FromEnv(t, "LNGTEST_ROUNDS", 1) {
		for _, a := range agents {
			for way, ends := range endings {
				t.Run(fmt.Sprintf("%d %s, %s", n, a.name, way), func(t *testing.T) {
					x := newTrial(t, a, true)
					x.Daemon()
					x.file("server.js", server)
					interrupted := way == "interrupted"
					first := "unlink up; " + apart("node server.js one") + "; until [ -e up ]; do sleep 0.1; done"
					if interrupted {
						first += "; echo waiting >" + x.m.Path + "; sleep 300"
					}
					x.script(model.Run(first), model.Run("unlink up; "+apart("node server.js two")+"; until [ -e up ]; do sleep 0.1; done"), model.Say("all done"))
					x.configure()
					x.setup(a.name, "--yes")
					ends(x, x.works("agent", interrupted))
					x.over([]string{"server.js one", "server.js two"})
					for _, up := range x.m.Lines("up") {
						require.NoError(t, bindable(up[1]))
					}
					x.bystander.MustBeUntouched()
				})
			}
		}
	}
}
