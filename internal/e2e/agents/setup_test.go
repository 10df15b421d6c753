//go:build linux

package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestSetup does what a new user does: one command puts the hooks into the agent's
// configuration, and with the next one the agent runs. Its leftovers are in the agent's
// session, and end with it.
func TestSetup(t *testing.T) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			a.path(t) // skips
			x := newTrial(t, a, false)
			x.Daemon()
			x.file("server.js", server)
			x.script(model.Run(apart("node server.js")), x.wait())
			command := x.once("")
			x.setup(a.name, "--yes")
			if files := x.hooked(); len(files) != 1 {
				t.Errorf("hooks are in %v", files)
			}
			p := x.exec(command)
			port := x.m.Line("up", 1)[1]
			x.m.Line("waiting", 1)
			holders := stage.Query[api.Holders](x.Instance, "why", ":"+port).Items
			if len(holders) != 1 || holders[0].Session == nil || !strings.HasPrefix(holders[0].Session.Name, a.name+"-") {
				t.Fatalf("port %s is held by %+v; agent: %s", port, holders, p.Err.String())
			}
			agent := holders[0].Session.Root.PID
			if x.alive()[agent] == "" {
				t.Errorf("the session's root %d is not the agent: %v", agent, x.alive())
			}
			x.kill(agent)
			x.Until("end of the server", func() bool { return len(x.running("node server.js")) == 0 })
			if r := x.Receipt(holders[0].Session.ID); r.Verdict != api.VerdictClean || named(*r, "server.js") != 1 {
				t.Errorf("%s, %+v", r.Verdict, r.Processes)
			}
			x.bystander.MustBeUntouched()
			x.setup(a.name, "--undo", "--yes")
			if files := x.hooked(); len(files) != 0 {
				t.Errorf("undone, hooks are in %v", files)
			}
		})
	}
}

// setup runs "lineage setup" as the user who owns the trial's home.
func (x *trial) setup(args ...string) {
	x.T.Helper()
	cmd := x.Command(append([]string{"setup"}, args...), []string{"HOME=" + x.home})
	if p := stage.Start(x.T, cmd).Wait(); p.Code() != 0 {
		x.T.Fatal(p)
	}
}

// hooked are the files of the agents' configurations that name lineage.
func (x *trial) hooked() (files []string) {
	for _, name := range []string{".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json", ".config/opencode/plugins/lineage.js"} {
		if text, err := os.ReadFile(filepath.Join(x.home, name)); err == nil && strings.Contains(string(text), stage.Lineage) {
			files = append(files, name)
		}
	}
	return files
}
