//go:build linux

package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// metricsOf are the instance's metrics as text.
func metricsOf(i *stage.Instance) string {
	i.T.Helper()
	reply, err := i.Client().Get("http://lineage/metrics")
	require.NoError(i.T, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(i.T, err)
	return string(text)
}

// sleeper is a process in no session.
func sleeper(t *testing.T) *stage.Process { return stage.Start(t, exec.Command("sleep", "600")) }

// TestGuardRecords: with mode observe, who would have hit whom is an event, in the metrics and in the
// history after a restart. Nothing is refused.
func TestGuardRecords(t *testing.T) {
	i := stage.New(t)
	policy := i.Policy("signals: session\n")
	d := i.Daemon("--policy", policy)
	to := sleeper(t)
	i.Must("run", "--name", "agent", "--", "sh", "-c", fmt.Sprintf("kill -TERM %d; sleep 600 & kill $!", to.Process.Pid))
	to.Wait()
	want := fmt.Sprintf("SIGTERM to %d sleep", to.Process.Pid)
	crossings := func() string {
		return i.Must("events", "--since", "10m", "--until", "0s", "--type", "crossing", "--session", "agent").Out.String()
	}
	i.Until("event", func() bool { return strings.Contains(crossings(), want) })
	if all := crossings(); strings.Count(all, "crossing") != 1 || strings.Contains(all, "refused") {
		t.Errorf("%s", all)
	}
	i.Until("count", func() bool { // it is read with each look
		text := metricsOf(i)
		return strings.Contains(text, `lineage_crossings_total{signal="sent"} 1`) && strings.Contains(text, `lineage_crossings_total{signal="refused"} 0`)
	})
	d.Stop()
	i.Daemon("--policy", policy)
	require.Contains(t, crossings(), want)
}

// TestGuardReload: a policy that is read again reaches the sessions that run, and a rule of an agent
// may guard only its own.
func TestGuardReload(t *testing.T) {
	i := stage.New(t)
	agent := filepath.Join(i.Dir, "lngtest-guarded")
	require.NoError(t, os.Symlink("/bin/sh", agent))
	policy := i.Policy("")
	d := i.Daemon("--policy", policy)
	run := i.Start([]string{"run", "--name", "lives", "--grace", "0s", "--", "sleep", "600"}, nil)
	defer func() { i.Must("end", "lives", "--now", "--yes"); run.Wait() }()
	i.Until("session", func() bool { return len(stage.Query[api.Sessions](i, "ls").Items) == 1 })
	is := func(text string, want api.SignalFate) {
		t.Helper()
		i.Policy(text)
		require.NoError(t, d.Process.Signal(unix.SIGHUP))
		i.Until(fmt.Sprintf("%q", want), func() bool { return i.Record("lives").Signals == want })
	}
	is("signals: session\n", api.SignalsRecorded)
	is("signals: any\nagents:\n  - {name: lngtest-guarded, enabled: true, match: {comm: lngtest-guarded}, signals: session}\n", "")
	to, file := sleeper(t), filepath.Join(i.Dir, "go")
	p := stage.Start(t, exec.Command(agent, "-c", fmt.Sprintf("until [ -e %s ]; do sleep 0.1; done; kill -STOP %d", file, to.Process.Pid)))
	i.Until("agent's session", func() bool {
		s := stage.Query[api.Sessions](i, "ls").Items
		at := slices.IndexFunc(s, func(s api.Session) bool { return s.Rule == "lngtest-guarded" })
		return at >= 0 && s[at].Signals == api.SignalsRecorded
	})
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	p.Wait()
	i.Until("event", func() bool {
		return strings.Contains(i.Must("events", "--since", "10m", "--until", "0s", "--type", "crossing").Out.String(), fmt.Sprintf("SIGSTOP to %d sleep", to.Process.Pid))
	})
}

// A pkill is what an agent runs: a pattern that matches the processes of the scene, and not the agent
// that has the pattern in its command line.
type pkill struct {
	i       *stage.Instance
	run     []string // lineage run
	guarded bool
	token   string // in the command lines of the scene
}

func (k *pkill) command(signal string) string {
	n := len(k.token) - 1
	return fmt.Sprintf("pkill -%s -f '%s[%s]-'", signal, k.token[:n], k.token[n:])
}

// named is a shell that runs a script and has the token in its command line.
func (k *pkill) named(what, script string, args ...string) []string {
	return slices.Concat([]string{"sh", "-c", script, k.token + "-" + what}, args)
}

// host: an agent that ends what it has started kills the program that runs it.
func (k *pkill) host(t *testing.T) {
	agent := slices.Concat(k.run, []string{"--", "sh", "-c", k.command("TERM") + "; echo pkill $?"})
	argv := k.named("host", `"$@"; echo goes on`, agent...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LINEAGE_SOCKET="+k.i.Socket)
	p := stage.Start(t, cmd).Wait()
	if k.guarded {
		require.Equal(t, p.Out.String(), "pkill 1\ngoes on\n")
		return
	}
	require.Equal(t, p.ProcessState.String(), "signal: terminated")
}

// siblings: an agent that cleans up kills a daemon, and the agents in other sessions.
func (k *pkill) siblings(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	const waits = `read x <>"$1"` // without a child
	argv := k.named("daemon", waits, fifo)
	daemon := stage.Start(t, exec.Command(argv[0], argv[1:]...))
	i := k.i.In(t)
	sibling := i.Start(slices.Concat(k.run[1:], []string{"--name", "sibling", "--"}, k.named("sibling", waits, fifo)), nil)
	i.Until("sibling", func() bool {
		s := stage.Query[api.Sessions](i, "ls").Items
		return len(s) == 1 && s[0].Root != nil && len(s[0].Root.Argv) > 3 && strings.HasPrefix(s[0].Root.Argv[3], k.token)
	})
	p := i.Start(slices.Concat(k.run[1:], []string{"--", "sh", "-c", k.command("KILL") + "; echo pkill $?"}), nil).Wait()
	require.Equal(t, p.Out.String(), map[bool]string{true: "pkill 1\n", false: "pkill 0\n"}[k.guarded])
	if k.guarded && (daemon.Exited() || sibling.Exited()) {
		t.Errorf("daemon %v, sibling %v", daemon, sibling)
	}
	if k.guarded {
		i.Must("end", "sibling", "--now", "--yes")
	} else {
		daemon.Wait()
	}
	sibling.Wait()
}

// itself: an agent has its prompt in its command line, and its tool kills what matches. The tool is in
// a session inside the agent's.
func (k *pkill) itself(t *testing.T) {
	tool := strings.Join(slices.Concat(k.run, []string{"--", "sh", "-c", `"$TOOL"`}), " ")
	p := k.i.In(t).Start(slices.Concat([]string{"run", "-q", "--grace", "0s", "--"}, k.named("prompt", tool+"; echo goes on $?")),
		[]string{"TOOL=" + k.command("TERM")}).Wait()
	if k.guarded {
		require.Contains(t, p.Out.String(), "goes on 1\n")
		return
	}
	require.Equal(t, p.Code(), 128+int(unix.SIGTERM))
}

func (k *pkill) all(t *testing.T) {
	t.Run("host", k.host)
	t.Run("siblings", k.siblings)
	t.Run("itself", k.itself)
}

func newPkill(i *stage.Instance, guarded bool, flags ...string) *pkill {
	return &pkill{
		i: i, guarded: guarded, run: slices.Concat([]string{stage.Lineage, "run", "-q", "--grace", "0s"}, flags),
		token: fmt.Sprintf("lngtest-guard-%d", os.Getpid()),
	}
}

// TestPkill: an agent's pkill matches its host (gptme #768), a daemon and its siblings (multica #8306), and
// itself (URL-Shortener-App #532). Without a guard it kills them.
func TestPkill(t *testing.T) {
	t.Run("any", func(t *testing.T) { newPkill(stage.NewDaemon(t), false).all(t) })
	t.Run("run", func(t *testing.T) {
		i := stage.NewDaemon(t)
		if p := i.Lineage("run", "--signals", "session", "true"); p.Code() != 0 {
			tracertest.Lacks(t, tracertest.AtLeast(t, 6, 12), strings.TrimSpace(p.Err.String()))
		}
		newPkill(i, true, "--signals", "session").all(t)
	})
	t.Run("policy", func(t *testing.T) {
		i := stage.New(t)
		i.Daemon("--policy", i.Policy("mode: enforce\nsignals: session\n"))
		const only = "signals that leave a session are only recorded: "
		if s := i.Status(); s.RefusesSignals == "none" {
			// The kernel cannot refuse: the operator and the user are told.
			require.Contains(t, strings.Join(s.Degraded, "\n"), only)
			require.Contains(t, i.Must("run", "true").Err.String(), "lineage: run: "+only)
			require.Contains(t, i.Must("policy", "check", filepath.Join(i.Dir, "policy.yaml")).Err.String(), "lineage: policy check: "+only)
			t.Skip("no program here refuses signals")
		}
		newPkill(i, true).all(t)
		i.Until("event", func() bool {
			return strings.Contains(i.Must("events", "--since", "10m", "--until", "0s", "--type", "crossing").Out.String(), ", refused")
		})
	})
}
