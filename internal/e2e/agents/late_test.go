//go:build linux

package agents

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// gate stands between an agent and its hooks. It holds each hook before and after it runs.
const gate = `#!/bin/sh
event=$(cat)
name=$(printf %s "$event" | sed -n 's/.*"hook_event_name" *: *"\([A-Za-z]*\)".*/\1/p')
mkfifo GATES/before.$$ GATES/after.$$
echo "before $name $$" >GATES/said
read -r go <GATES/before.$$
answer=$(printf %s "$event" | XDG_RUNTIME_DIR=GATES LINEAGE "$@")
echo "after $name $$" >GATES/said
read -r go <GATES/after.$$
if [ "$go" = again ]; then
	echo '{"decision": "block", "reason": "once more"}'
else
	printf %s "$answer"
fi
`

// An outage is a time in which no daemon answers. It ends during one of the agent's hooks.
type outage struct {
	name      string
	before    func(*meeting) // the agent starts
	meanwhile func(*meeting) // the hook runs
}

var (
	outages = []outage{
		{"stopped, continued 1 s later", (*meeting).stopped, func(g *meeting) { time.AfterFunc(time.Second, g.resume) }},
		{"stopped, continued 5 s later", (*meeting).stopped, func(g *meeting) { time.AfterFunc(5*time.Second, g.resume) }},
		{"restarted", (*meeting).serve, func(g *meeting) { g.stop(); g.serve() }},
		{"started late", func(*meeting) {}, (*meeting).serve},
	}
	moments = []string{"SessionStart", "PreToolUse", "PostToolUse", "Stop"}
)

// TestHooksMeetDaemon: the agent is in a session once one hook has run since a daemon answers,
// whatever happened to the daemon, and at which hook. LNGTEST_MEETINGS rounds go through all
// combinations; LNGTEST_LOAD processes use the CPUs meanwhile.
func TestHooksMeetDaemon(t *testing.T) {
	rounds := stage.FromEnv(t, "LNGTEST_MEETINGS", 8)
	busy := stage.NewCgroup(t)
	for range stage.FromEnv(t, "LNGTEST_LOAD", 0) {
		command := busy.Wrap("timeout", "3600", "nice", "sh", "-c", "while :; do :; done")
		stage.Start(t, exec.Command(command[0], command[1:]...))
	}
	met := 0
	for n := range rounds {
		a, o, moment := []*agent{claude, codex}[n%2], outages[n/2%4], moments[(n/2+n/8)%4]
		t.Run(fmt.Sprintf("%s, %s at %s", a.name, o.name, moment), func(t *testing.T) {
			a.path(t) // skips
			meet(t, a, o, moment)
			if !t.Failed() {
				met++
			}
		})
	}
	t.Logf("figure: in %d of %d rounds the agent was in a session after the first hook that a daemon could answer", met, rounds)
}

// A meeting is an agent whose hooks wait at a gate, and a daemon.
type meeting struct {
	*trial
	dir    string
	said   chan string
	daemon *stage.Process
}

func meet(t *testing.T, a *agent, o outage, moment string) {
	g := &meeting{trial: newTrial(t, a, false), said: make(chan string)}
	g.dir = filepath.Join(g.Dir, "gates")
	require.NoError(t, os.Mkdir(g.dir, 0o700))
	g.listen()
	g.script(model.Run("sleep 0.1"), model.Run("sleep 0.1"), model.Say("one"), model.Run("sleep 0.1"), model.Run("sleep 0.1"), model.Say("two"))
	command := g.once("")
	g.setup(a.name, "--yes")
	g.gate()
	o.before(g)
	p := g.exec(command)
	reached, met, stops := false, "", 0
	for {
		line := g.next(p)
		if line == "" {
			break
		}
		var when, name string
		var pid int
		if _, err := fmt.Sscan(line, &when, &name, &pid); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if when == "before" {
			if name == "Stop" {
				stops++
			}
			if name == "Stop" && stops == 2 && reached { // the last chance of an agent that is faster than the outage
				g.Until("daemon that answers", g.answers)
			}
			answers := g.answers()
			g.open(when, pid, "go")
			if name == moment && !reached {
				reached = true
				o.meanwhile(g)
			} else if answers && met == "" {
				met = name
			}
			continue
		}
		if met != "" {
			if s := g.sessionOf(pid); s == nil || !strings.HasPrefix(s.Name, a.name+"-") {
				t.Errorf("the daemon answered before %s, and after %s the hook is in %+v", met, name, s)
			}
		}
		if name == "Stop" && stops == 1 {
			g.open(when, pid, "again")
		} else {
			g.open(when, pid, "go")
		}
	}
	if met == "" {
		t.Errorf("no hook ran after the outage; stops: %d; %v", stops, p)
	}
	t.Logf("figure: the first hook that a daemon could answer is %s", met)
	g.bystander.MustBeUntouched()
}

// listen reads what the gates say.
func (g *meeting) listen() {
	g.T.Helper()
	path := filepath.Join(g.dir, "said")
	require.NoError(g.T, unix.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0) // it has no end between two gates
	require.NoError(g.T, err)
	g.T.Cleanup(func() { f.Close() })
	go func() {
		for in := bufio.NewScanner(f); in.Scan(); {
			select {
			case g.said <- in.Text():
			case <-g.T.Context().Done():
				return
			}
		}
	}()
}

// next is what a gate says, or "" if the agent has ended.
func (g *meeting) next(p *stage.Process) string {
	g.T.Helper()
	for end := time.Now().Add(stage.Patience); ; {
		select {
		case line := <-g.said:
			return line
		case <-time.After(50 * time.Millisecond):
		}
		if p.Exited() {
			return ""
		}
		if time.Now().After(end) {
			g.T.Fatalf("neither a hook nor an end: %v", p)
		}
	}
}

// gate puts the gate before each hook of the agent's configuration.
func (g *meeting) gate() {
	g.T.Helper()
	path := g.file("gate", strings.NewReplacer("GATES", g.dir, "LINEAGE", stage.Lineage).Replace(gate))
	files := g.hooked()
	if len(files) != 1 {
		g.T.Fatalf("hooks are in %v", files)
	}
	settings := filepath.Join(g.home, files[0])
	text, err := os.ReadFile(settings)
	if err == nil {
		err = os.WriteFile(settings, []byte(strings.ReplaceAll(string(text), stage.Lineage+" hook", path+" hook")), 0o600)
	}
	require.NoError(g.T, err)
}

// open lets a gate go on. It opens a FIFO of its own each time: another reader could meet the end
// of this one.
func (g *meeting) open(when string, pid int, word string) {
	g.T.Helper()
	require.NoError(g.T, os.WriteFile(filepath.Join(g.dir, fmt.Sprintf("%s.%d", when, pid)), []byte(word+"\n"), 0))
}

func (g *meeting) serve() { g.daemon = g.Daemon() }

func (g *meeting) stop() {
	require.NoError(g.T, g.daemon.Process.Kill())
	g.daemon.Wait()
}

func (g *meeting) stopped() {
	g.serve()
	require.NoError(g.T, g.daemon.Process.Signal(unix.SIGSTOP))
	g.T.Cleanup(g.resume)
}

func (g *meeting) resume() { _ = g.daemon.Process.Signal(unix.SIGCONT) }

// answers reports whether a daemon answers now.
func (g *meeting) answers() bool {
	ctx, cancel := context.WithTimeout(g.T.Context(), 300*time.Millisecond)
	defer cancel()
	c, err := api.Dial(ctx, g.Socket)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// sessionOf is the session of a gate, which is a child of the agent; nil: it is in none.
func (g *meeting) sessionOf(pid int) *api.Session {
	g.T.Helper()
	ctx, cancel := context.WithTimeout(g.T.Context(), stage.Patience)
	defer cancel()
	c, err := api.Dial(ctx, g.Socket)
	require.NoError(g.T, err)
	defer c.Close()
	p, err := c.Process(ctx, fmt.Sprint(pid))
	require.NoError(g.T, err)
	if p.Session == "" {
		return nil
	}
	s, err := c.Session(ctx, p.Session)
	require.NoError(g.T, err)
	return s
}
