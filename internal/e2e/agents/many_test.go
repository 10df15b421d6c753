//go:build linux

package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A conversation is one with "codex app-server": JSON-RPC, one message a line.
type conversation struct {
	*stage.Process
	in  io.WriteCloser
	out *bufio.Scanner
	n   int
}

// converse starts codex's server, which editors use.
func (x *trial) converse(flags ...string) *conversation {
	x.T.Helper()
	command := x.command("agent", flags, x.bin, "app-server")
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	require.NoError(x.T, err)
	out, answers, err := os.Pipe()
	require.NoError(x.T, err)
	x.T.Cleanup(func() { out.Close() })
	cmd.ExtraFiles = []*os.File{answers}
	cmd.Args = append([]string{"sh", "-c", `exec "$@" >&3 3>&-`, "sh"}, cmd.Args...)
	cmd.Path = "/bin/sh"
	c := &conversation{Process: stage.Start(x.T, cmd), in: in, out: bufio.NewScanner(out)}
	answers.Close()
	x.started = append(x.started, c.Process)
	c.out.Buffer(nil, 4<<20)
	c.ask("initialize", map[string]any{"clientInfo": map[string]any{"name": "lngtest", "version": "1"}})
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"initialized"}`)
	return c
}

// ask waits for the answer; false if the server is gone.
func (c *conversation) ask(method string, params any) bool {
	c.n++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.n, "method": method, "params": params})
	require.NoError(c.T, err)
	if _, err := fmt.Fprintf(c.in, "%s\n", b); err != nil {
		return false
	}
	for c.out.Scan() {
		var answer struct {
			ID    int
			Error *struct{ Message string }
		}
		if json.Unmarshal(c.out.Bytes(), &answer) == nil && answer.ID == c.n {
			if answer.Error != nil {
				c.T.Fatalf("%s: %s", method, answer.Error.Message)
			}
			return true
		}
	}
	return false
}

// Row 8: each new thread of a live agent starts every server again, and none ends. The
// limit of the session ends it.
func manyServers(x *trial) {
	const limit = 90 // each server is two processes
	x.mcp("")
	x.script()
	c := x.converse("--max-processes", fmt.Sprint(limit))
	for n := range 50 {
		if !c.ask("thread/start", map[string]any{"cwd": x.work}) {
			break
		}
		if n == 19 && x.traced {
			x.stay("mcp", 20)
		}
	}
	if !x.traced {
		x.stay("mcp", 50)
		c.Stop()
		return
	}
	c.Wait()
	if r := x.receipt("agent"); r.EndReason != "max_processes" {
		x.T.Errorf("ended by %s", r.EndReason)
	}
}

// reapers fails unless ls --left names the parent of n zombies.
func (x *trial) reapers(parent, n int) error {
	found := 0
	for _, o := range stage.Query[api.Orphans](x.Instance, "ls", "--left").Items {
		if o.Why == api.WhyZombie && o.Reaper != nil && o.Reaper.PID == parent {
			found++
		}
	}
	if found != n {
		return fmt.Errorf("%d zombies have parent %d, want %d", found, parent, n)
	}
	return nil
}

// Row 11: the agent ends at SIGHUP, but what its MCP server's launcher started does not.
func tabClosed(x *trial) {
	x.mcp("")
	x.script(x.wait())
	screen := x.open("agent")
	x.m.Line("mcp", 1)
	x.m.Line("waiting", 1)
	screen.Close()
	x.Until("end of the agent", func() bool { return !x.runs(x.bin) })
}

// serving starts "opencode serve" below a command, and returns its address.
func (x *trial) serving(command ...string) (url string) {
	x.T.Helper()
	p := x.exec(x.command("agent", nil, command...))
	x.Until("server", func() bool {
		if p.Exited() {
			x.T.Fatal(p)
		}
		text, _ := os.ReadFile(filepath.Join(x.work, "served"))
		_, after, _ := strings.Cut(string(text), "listening on ")
		url = strings.TrimSpace(after)
		return strings.HasSuffix(after, "\n")
	})
	return url
}

// Row 12: neither the backend nor the daemon is alive to end the server; the kernel does it.
func backendKilled(x *trial) {
	x.script()
	x.file("backend.js", `const out = require("fs").openSync("served", "a");
require("child_process").spawn(process.argv[2], ["serve", "--hostname", "127.0.0.1", "--port", "0"], {stdio: ["ignore", out, out]});
setTimeout(() => process.exit(), 300000);
`)
	x.serving("node", "backend.js", x.bin)
	backend := x.running("node backend.js")
	if x.traced {
		x.dead() // the daemon
	}
	x.kill(backend[len(backend)-1])
	x.ends(backend[len(backend)-1])
}

// Row 14: each session is ended alone, and the others keep what they have.
func fourSessions(x *trial) {
	const sessions, burst = 4, 57
	x.mcp("")
	x.file("burst.sh", fmt.Sprintf("for n in $(seq %d); do setsid sleep 305 & done >/dev/null 2>&1\n", burst))
	x.script(model.Run("sh burst.sh"), x.wait())
	var all []*stage.Process
	for n := range sessions {
		all = append(all, x.start(fmt.Sprintf("agent%d", n)))
	}
	x.m.Line("waiting", sessions)
	x.stay("sleep 305", sessions*burst)
	x.stay("mcp "+x.m.Path, sessions)
	for n, p := range all {
		name := fmt.Sprintf("agent%d", n)
		if !x.traced {
			x.kill(p.Process.Pid)
			p.Wait()
			continue
		}
		x.End(name)
		p.Wait()
		if got, want := len(x.running("sleep 305")), (sessions-n-1)*burst; got != want {
			x.T.Errorf("after the end of %d sessions %d processes of the bursts live, want %d", n+1, got, want)
		}
	}
}

// Row 15: a process that a server started detached outlives each connection.
func reconnects(x *trial) {
	const times = 53
	self, err := os.Executable()
	require.NoError(x.T, err)
	x.mcp(apart(self+" helper"), "polite")
	x.script()
	url := x.serving("sh", "-c", `exec "$0" serve --hostname 127.0.0.1 --port 0 >served 2>&1`, x.bin)
	post := func(what string) {
		r, err := http.Post(url+"/mcp/one/"+what, "application/json", strings.NewReader("{}"))
		require.NoError(x.T, err)
		defer r.Body.Close()
		if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
			x.T.Fatalf("%s: %s %s", what, r.Status, text)
		}
	}
	for range times {
		post("connect")
		post("disconnect")
	}
	x.stay("agents.test helper", times)
	agent := x.running(x.bin + " serve")
	x.kill(agent[len(agent)-1])
	x.ends(agent[len(agent)-1])
}

// Row 16: eleven of the agents are killed. Their servers look like the twelfth's, which stays alive.
func equalServers(x *trial) {
	const equal = 12
	x.mcp("")
	x.script(x.wait())
	var all []*stage.Process
	for n := range equal {
		all = append(all, x.start(fmt.Sprintf("agent%d", n)))
	}
	x.m.Line("waiting", equal)
	servers := x.stay("mcp "+x.m.Path, equal)
	used := 0
	if x.traced {
		seen := map[string]int{}
		for _, pid := range servers {
			s := x.why(pid)
			if s == nil {
				x.T.Fatalf("%d is of no session", pid)
			}
			seen[s.Name]++
			if s.Name == "agent0" {
				used = pid
			}
		}
		if len(seen) != equal || seen["agent0"] == 0 {
			x.T.Errorf("the servers are of %v", seen)
		}
	}
	for n, p := range all[1:] {
		x.kill(x.root(p, fmt.Sprintf("agent%d", n+1)))
		p.Wait()
	}
	if !x.traced {
		x.stay("mcp "+x.m.Path, equal) // nothing shows which of them is in use
		return
	}
	left := x.running("mcp " + x.m.Path)
	if !slices.Contains(left, used) || len(left) > len(servers)/equal {
		x.T.Errorf("servers %v live, want that of the live agent, %d", left, used)
	}
	x.End("agent0")
}

// Row 17: neither its name nor the lack of a terminal makes a server an orphan, and a
// similar one in no session is left alone.
func withoutTerminal(x *trial) {
	x.mcp("")
	x.script(x.wait())
	p := x.start("agent")
	x.m.Line("mcp", 1)
	x.m.Line("waiting", 1)
	pid := x.stay("mcp "+x.m.Path, 1)
	if x.traced {
		for _, o := range stage.Query[api.Orphans](x.Instance, "ls", "--left").Items {
			if slices.Contains(pid, o.PID) {
				x.T.Errorf("the server in use is named: %+v", o)
			}
		}
		x.Must("end", "--left", "--yes")
		if got := x.running("mcp " + x.m.Path); !slices.Equal(got, pid) {
			x.T.Errorf("servers %v live, want %v", got, pid)
		}
	}
	x.kill(x.root(p, "agent"))
}
