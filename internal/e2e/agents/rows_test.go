//go:build linux

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
)

var rows = []row{
	{1, "anthropics/claude-code#93996", claude, "SIGKILL of the agent while its tests run", killedInTests, []string{"suite.test.js"}},
	{2, "anthropics/claude-code#27959", claude, "a background command, Esc, /exit", interrupted, []string{"server.js"}},
	{3, "anthropics/claude-code#19433", claude, "exits ten times; its MCP server has a helper", exitedTenTimes, []string{"server.js"}},
	{4, "anthropics/claude-code#19022", claude, "the terminal is closed; orphans go to a user's manager", terminalClosed, []string{"server.js"}},
	{8, "openai/codex#30408", codex, "50 times the MCP servers of a live agent", manyServers, []string{"mcp"}},
	{9, "openai/codex#12491, #25744", codex, "a parent that waits for none of its 300 children", zombies, []string{"lngtest-zombies"}},
	{10, "openai/codex-plugin-cc#193", claude, "a detached broker that uses a whole CPU", spinningBroker, []string{"spin.js"}},
	{11, "anomalyco/opencode#12913, #12767", opencode, "the terminal is closed", tabClosed, []string{"mcp"}},
	{12, "pingdotgg/t3code#5241", opencode, "SIGKILL of the backend of a server, the daemon dead too", backendKilled, []string{"serve --hostname"}},
	{14, "openclaw/openclaw#142965", gemini, "4 sessions with MCP servers, 57 processes each", fourSessions, []string{"sleep 305", "mcp"}},
	{15, "NousResearch/hermes-agent#57228", opencode, "reconnects 53 times to an MCP server that has a helper", reconnects, []string{"agents.test helper"}},
	{16, "asheshgoplani/agent-deck#965", codex, "12 equal MCP servers, one in use", equalServers, []string{"mcp"}},
	{17, "marcusquinn/aidevops#31629", gemini, "a server without a terminal, in use", withoutTerminal, []string{"mcp"}},
	{18, "marcusquinn/aidevops#26951, littlebearapps/untether#257", gemini, "setsid inside setsid under a timeout", nestedSetsid, []string{"sleep 305"}},
	{19, "actions/runner#4601", claude, "forks during the cleanup", forksMeanwhile, []string{"lngtest-hop"}},
	{20, "NVIDIA/NemoClaw#9598, aws/agentcore-cli#1440", gemini, "ends, and its port is held", portHeld, []string{"server.js"}},
}

// server listens on a port until it is killed, for five minutes at most. Beside it is a file "up" then.
const server = `require("http").createServer((q, a) => a.end("ok")).listen(0, "127.0.0.1", function () {
	require("fs").appendFileSync("MARKER", "up " + process.pid + " " + this.address().port + "\n");
	require("fs").writeFileSync(__dirname + "/up", "");
});
setTimeout(() => process.exit(), 300000);
`

// apart starts a command detached, like a daemon, and forgets it.
func apart(command string) string { return "(setsid " + command + " >/dev/null 2>&1 &)" }

// wait is a tool call that lasts until the agent is gone.
func (x *trial) wait() model.Turn { return model.Run("echo waiting >" + x.m.Path + "; exec sleep 300") }

// Row 1: the runner of node starts each file of tests in its own process.
func killedInTests(x *trial) {
	x.file("suite.test.js", `require("node:test")("waits", (t, done) => {
	require("fs").appendFileSync("MARKER", "testing\n");
	setTimeout(done, 300000);
});
`)
	x.script(model.Run("node --test suite.test.js"))
	p := x.start("agent")
	x.m.Line("testing", 1)
	root := x.root(p, "agent")
	x.kill(root)
	x.ends(root)
}

// Row 2: background processes end at /exit, as the agent walks over its descendants. A
// process that left its parent is no longer one of them.
func interrupted(x *trial) {
	x.file("server.js", server)
	x.script(model.Turn{Calls: []model.Call{{Command: apart("node server.js") + "; sleep 300", Background: true}}}, x.wait())
	screen := x.open("agent")
	x.m.Line("up", 1)
	x.m.Line("waiting", 1)
	screen.Press("Escape")
	screen.See("word of the interruption", func(s string) bool { return strings.Contains(s, "Interrupted") })
	screen.Type("/exit")
	screen.See("end of the agent", func(s string) bool { return strings.Contains(s, "lngtest-after") }, "Enter")
}

// Row 3: the agent ends its servers, but not what they started detached, as a server
// that controls a browser does.
func exitedTenTimes(x *trial) {
	x.file("server.js", server)
	x.mcp(apart("node "+x.work+"/server.js"), "polite")
	x.script(model.Run("until [ -e up ]; do sleep 0.1; done")) // what is not up yet would end with the agent
	for n := range 10 {
		_ = os.Remove(filepath.Join(x.work, "up")) // the one before made it
		x.start(fmt.Sprintf("agent%d", n)).Wait()
		x.m.Line("up", n+1)
	}
}

// Row 4: with a manager above the terminal, a PPID of 1 does not show an orphan. The session
// comes from a rule, because "lineage run" would itself be such a manager.
func terminalClosed(x *trial) {
	x.file("server.js", server)
	x.script(model.Run(apart("node server.js")), x.wait())
	screen := x.manage()
	x.m.Line("up", 1)
	x.m.Line("waiting", 1)
	pid := x.stay("node server.js", 1)[0]
	if parent := parentOf(pid); parent == 1 {
		x.T.Errorf("the orphan is PID 1's")
	}
	if x.traced {
		if s := x.why(pid); s == nil || s.Rule != "lngtest-agent" {
			x.T.Errorf("the orphan is of %+v", s)
		}
	}
	screen.Close()
	x.Until("end of the agent", func() bool { return !x.runs(x.bin) })
}

// Row 9: neither the agent nor PID 1 can reap them; only their parent can.
func zombies(x *trial) {
	x.script(model.Run("LNGTEST_SECONDS=300 LNGTEST_MARKER="+x.m.Path+" setsid "+program("zombies")+" 300 >/dev/null 2>&1 &"), x.wait())
	p := x.start("agent")
	x.m.Line("ready", 1)
	x.m.Line("waiting", 1)
	parent := x.stay("lngtest-zombies", 1)[0]
	if x.traced {
		x.Agrees("zombies and their parent", func() error { return x.reapers(parent, 300) })
	}
	x.kill(x.root(p, "agent"))
}

// Row 10: the broker outlives the agent, and works for no one.
func spinningBroker(x *trial) {
	x.file("spin.js", `require("fs").appendFileSync("MARKER", "spinning\n");
require("fs").writeFileSync(__dirname + "/up", "");
for (const end = Date.now() + 300000; Date.now() < end;);
`)
	x.file("broker.js", `require("child_process").spawn("nice", ["node", "spin.js"], {detached: true, stdio: "ignore"}).unref();`)
	x.script(model.Run("node broker.js; until [ -e up ]; do sleep 0.1; done")) // what is not up yet would end with the agent
	p := x.start("agent")
	x.m.Line("spinning", 1)
	p.Wait()
}

// Row 18: the timeout ends its own process group only.
func nestedSetsid(x *trial) {
	x.script(model.Run("timeout 1 sh -c 'setsid sh -c \"setsid sleep 305 & exec sleep 305\" & wait' >/dev/null 2>&1"))
	x.start("agent").Wait()
}

// Row 19: a chain of processes that fork and exit is never seen by a scan of /proc.
func forksMeanwhile(x *trial) {
	x.script(model.Run("LNGTEST_SECONDS=300 LNGTEST_MARKER=" + x.m.Path + " setsid " + program("hop") + " 8 60 >/dev/null 2>&1 & sleep 1"))
	x.start("agent").Wait()
}

// Row 20: when run has returned, the port can be taken at once.
func portHeld(x *trial) {
	x.file("server.js", server)
	x.script(model.Run(apart("node server.js")+"; sleep 1"), x.wait())
	p := x.start("agent")
	port := x.m.Line("up", 1)[1]
	x.m.Line("waiting", 1)
	x.kill(x.root(p, "agent"))
	p.Wait()
	if err := bindable(port); (err == nil) != x.traced {
		x.T.Errorf("port %s, traced %v: %v", port, x.traced, err)
	}
	if x.traced {
		if r := x.receipt("agent"); !freed(r, port) {
			x.T.Errorf("the receipt does not say that port %s is free: %+v", port, r.PortsFreed)
		}
	}
}
