//go:build linux

package agents

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A trial is one row, run without lineage or with it.
type trial struct {
	*stage.Instance
	agent      *agent
	traced     bool
	bin        string
	model      *model.Server
	home, work string
	group      *stage.Cgroup
	m          *stage.Marker
	servers    map[string][]string
	bystander  *stage.Bystander
	started    []*stage.Process
}

func newTrial(t *testing.T, a *agent, traced bool) *trial {
	t.Helper()
	bin := a.path(t)
	x := &trial{Instance: stage.New(t), agent: a, traced: traced, bin: bin, servers: map[string][]string{}}
	x.group, x.m = stage.NewCgroup(t), stage.NewMarker(t, x.Dir)
	x.home, x.work = filepath.Join(x.Dir, "home"), filepath.Join(x.Dir, "home", "work")
	require.NoError(t, os.MkdirAll(x.work, 0o755))
	x.bystander = stage.NewBystander(x.Instance, "node", 0)
	return x
}

// script sets what the model answers.
func (x *trial) script(turns ...model.Turn) {
	x.T.Helper()
	s, err := model.Start(turns...)
	require.NoError(x.T, err)
	x.T.Cleanup(s.Close)
	x.model = s
}

// file writes a program or a document into the agent's working folder.
func (x *trial) file(name, text string) string {
	x.T.Helper()
	path := filepath.Join(x.work, name)
	require.NoError(x.T, os.WriteFile(path, []byte(strings.ReplaceAll(text, "MARKER", x.m.Path)), 0o755))
	return path
}

func (x *trial) configure() {
	x.T.Helper()
	for name, content := range x.agent.files(x, x.servers) {
		text, ok := content.(string)
		if !ok {
			b, err := json.Marshal(content)
			require.NoError(x.T, err)
			text = string(b)
		}
		path := filepath.Join(x.home, name)
		require.NoError(x.T, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(x.T, os.WriteFile(path, []byte(text), 0o600))
	}
}

// command is the agent with args in the trial's cgroup, below "lineage run" if it is traced.
func (x *trial) command(name string, flags []string, args ...string) []string {
	x.T.Helper()
	x.configure()
	return x.commandAgain(name, flags, args...)
}

// commandAgain is command without writing the configuration again.
func (x *trial) commandAgain(name string, flags []string, args ...string) []string {
	env := slices.Concat([]string{"env", "-i", "--chdir=" + x.work, "HOME=" + x.home, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8",
		"SHELL=/bin/bash", "LINEAGE_SOCKET=" + x.Socket}, x.agent.env(x.model.URL))
	if x.traced {
		env = slices.Concat(env, []string{stage.Lineage, "run", "--name", name, "--grace", "1s", "--report", x.receiptOf(name)}, flags, []string{"--"})
	}
	return x.group.Wrap(slices.Concat(env, args)...)
}

func (x *trial) receiptOf(name string) string { return filepath.Join(x.Dir, name+".json") }

// start runs the agent on one prompt, without a terminal.
func (x *trial) start(name string, flags ...string) *stage.Process {
	x.T.Helper()
	return x.exec(x.once(name, flags...))
}

func (x *trial) once(name string, flags ...string) []string {
	x.T.Helper()
	return x.command(name, flags, append([]string{x.bin}, x.agent.once("do it")...)...)
}

func (x *trial) exec(command []string) *stage.Process {
	x.T.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = x.work
	p := stage.Start(x.T, cmd)
	x.started = append(x.started, p)
	return p
}

func (x *trial) open(name string) *stage.Terminal {
	x.T.Helper()
	return x.TerminalOf(120, 40, x.command(name, nil, append([]string{x.bin}, x.agent.terminal("do it")...)...)...)
}

func (x *trial) root(p *stage.Process, name string) int {
	x.T.Helper()
	if !x.traced {
		return p.Process.Pid
	}
	return x.Session(name).Root.PID
}

// kill sends SIGKILL to a process that the trial started.
func (x *trial) kill(pid int) {
	x.T.Helper()
	if _, ours := x.alive()[pid]; !ours {
		x.T.Fatalf("%d is not a process of the trial: %v", pid, x.alive())
	}
	require.NoError(x.T, unix.Kill(pid, unix.SIGKILL))
}

// alive are the live processes of the trial, without lineage's own.
func (x *trial) alive() map[int]string { return x.group.Processes(stage.Lineage) }

// running are those whose command line has the text.
func (x *trial) running(text string) (pids []int) {
	for pid, line := range x.alive() {
		if strings.Contains(line, text) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// runs reports whether a program runs, by the first word of its command line.
func (x *trial) runs(path string) bool {
	for _, line := range x.alive() {
		if strings.HasPrefix(line+" ", path+" ") {
			return true
		}
	}
	return false
}

// ends waits until a process of the trial has ended.
func (x *trial) ends(pid int) {
	x.T.Helper()
	x.Until(fmt.Sprintf("end of %d", pid), func() bool { _, alive := x.alive()[pid]; return !alive })
}

func (x *trial) receipt(name string) api.Report {
	x.T.Helper()
	return stage.Report(x.T, x.receiptOf(name))
}

// named are the processes of a receipt whose command line has the text.
func named(r api.Report, text string) (n int) {
	for _, p := range r.Processes {
		if strings.Contains(p.Comm+" "+strings.Join(p.Argv, " "), text) {
			n++
		}
	}
	return n
}

// mcp gives the agent an MCP server, "one", which runs below a shell, as with npx and
// uvx. The shell first runs the command before. A polite server ends with its input.
func (x *trial) mcp(before string, polite ...string) {
	x.T.Helper()
	self, err := os.Executable()
	require.NoError(x.T, err)
	x.servers["one"] = []string{"sh", "-c", before + "\n" + self + " mcp " + x.m.Path + " " + strings.Join(polite, " ") + "; :"}
}

// manage runs the agent on a terminal below a manager of processes, in a session of a rule
// that matches only this copy of it.
func (x *trial) manage() *stage.Terminal {
	x.T.Helper()
	self, err := os.Executable()
	require.NoError(x.T, err)
	if x.traced {
		exe, err := filepath.EvalSymlinks(x.bin)
		require.NoError(x.T, err)
		x.Lineage("daemon", "--unload", "--force")
		x.Daemon("--policy", x.Policy(fmt.Sprintf("mode: enforce\nagents:\n  - {name: lngtest-agent, enabled: true, match: {comm: %s, exe: %s}, grace: 1s}\n", x.agent.bin, exe)))
	}
	traced := x.traced
	x.traced = false
	command := x.command("", nil, append([]string{self, "manager", x.bin}, x.agent.terminal("do it")...)...)
	x.traced = traced
	return x.TerminalOf(120, 40, command...)
}

// dead kills the daemon, and waits until it is gone. Its successor, which run starts in the
// trial's cgroup, is stopped before that is emptied.
func (x *trial) dead() {
	x.T.Helper()
	x.T.Cleanup(func() { x.Lineage("daemon", "--unload", "--force") })
	pid := x.Version().PID
	require.NoError(x.T, unix.Kill(pid, unix.SIGKILL))
	x.Until("end of the daemon", func() bool {
		return stage.ProcStatus(pid, "State") == "" || strings.HasPrefix(stage.ProcStatus(pid, "State"), "Z")
	})
}

func program(name string) string { return stage.Program(name) }

func parentOf(pid int) int {
	n, _ := strconv.Atoi(stage.ProcStatus(pid, "PPid"))
	return n
}

// bindable is nil if a port of the loopback interface can be taken now.
func bindable(port string) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err == nil {
		err = l.Close()
	}
	return err
}

func freed(r api.Report, port string) bool {
	return slices.ContainsFunc(r.PortsFreed, func(p api.Port) bool { return fmt.Sprint(p.Port) == port })
}
