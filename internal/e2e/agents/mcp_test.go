//go:build linux

package agents

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestMCP adds lineage's server as the manual says; the agent asks it what the agent left running.
func TestMCP(t *testing.T) {
	claude.path(t) // skips
	x := newTrial(t, claude, true)
	x.Daemon()
	x.file("server.js", server)
	x.script(
		model.Run(apart("node server.js")+"; until [ -e up ]; do sleep 0.1; done"),
		model.Turn{Calls: []model.Call{{Tool: "mcp__lineage__list_running"}}},
		model.Turn{Calls: []model.Call{{Tool: "mcp__lineage__ports"}}},
	)
	var asked bytes.Buffer
	x.model.Trace = &asked // of one conversation, a request at a time
	command := x.once("agent")
	x.traced = false
	added := x.exec(x.commandAgain("", nil, x.bin, "mcp", "add", "--scope", "user", "lineage", "--", stage.Lineage, "mcp"))
	x.traced = true
	if added.Wait().Code() != 0 {
		t.Fatal(added)
	}
	p := x.exec(command).Wait()
	up := x.m.Line("up", 1) // the server's PID and port, which no scripted answer contains
	if p.Code() != 0 {
		t.Error(p)
	}
	x.model.Close()
	text := asked.String()
	for _, want := range []string{"mcp__lineage__end_branch", up[0], up[1]} {
		if !strings.Contains(text, want) {
			t.Errorf("the agent has not seen %s", want)
		}
	}
	x.bystander.MustBeUntouched()
}
