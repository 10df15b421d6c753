//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// named makes a copy of a test program under the name, in dir.
func named(t *testing.T, dir, program, name string) string {
	t.Helper()
	b := require.ReadFile(t, stage.Program(program))
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, b, 0o755))
	return path
}

// byRule are the live sessions of a rule.
func byRule(i *stage.Instance, rule string) (all []api.Session) {
	i.T.Helper()
	for _, s := range stage.Query[api.Sessions](i, "ls").Items {
		if s.Rule == rule {
			all = append(all, s)
		}
	}
	return all
}

// A long-lived service leaks 121 task children. Each is found, is its own session under
// its rule, and ends when it idles; the service is not touched, and neither are 200
// lookalikes.
func TestLeakingService(t *testing.T) {
	const tasks, lookalikes = 121, 200
	i := stage.New(t)
	task := named(t, i.Dir, "gone", "lngtest-task")
	service := filepath.Join(i.Dir, "lngtest-service")
	require.NoError(t, os.Symlink("/bin/sh", service))
	i.Daemon("--policy", i.Policy(fmt.Sprintf(`mode: enforce
breaker: {ends_per_minute: 1000}
agents:
  - name: lngtest-task
    enabled: true
    match: {comm: lngtest-task, exe: %s, parent: {comm: lngtest-service}}
    idle: 1s
    grace: 0s
`, task)))
	script := func(program string, n int) string {
		return fmt.Sprintf(`i=0; while [ $i -lt %d ]; do %s & i=$((i+1)); done; echo started >&9; wait; kill -STOP $$`, n, program)
	}
	// The same name, arguments and file, but not a task of the service; and another file.
	other := stage.NewMarker(t, i.Dir)
	elsewhere := filepath.Join(i.Dir, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o755))
	copied := named(t, elsewhere, "gone", "lngtest-task")
	lookalike := stage.Start(t, shell(other, "/bin/sh", "exec 9>"+other.Path+"; "+script(task, lookalikes/2)))
	another := stage.Start(t, shell(other, service, "exec 9>"+other.Path+"; "+script(copied, lookalikes/2)))
	other.Line("started", 2)

	m := stage.NewMarker(t, i.Dir)
	leaking := stage.Start(t, shell(m, service, "exec 9>"+m.Path+"; "+script(task, tasks)))
	m.Line("started", 1)
	most := 0
	i.Agrees("found", func() error {
		most = max(most, len(byRule(i, "lngtest-task")))
		ended := 0
		for _, s := range stage.Query[api.Sessions](i, "ls", "--all").Items {
			if s.Rule == "lngtest-task" && s.State == "ended" && s.EndReason == "idle" {
				ended++
			}
		}
		if ended != tasks {
			return fmt.Errorf("%d tasks have ended idle, want %d", ended, tasks)
		}
		return nil
	})
	i.Agrees("leak", func() error {
		if left := m.Holders(); len(left) != 1 || left[0] != leaking.Process.Pid {
			return fmt.Errorf("alive are %d, want only the service %d", len(left), leaking.Process.Pid)
		}
		return nil
	})
	if leaking.Exited() || lookalike.Exited() || another.Exited() {
		t.Error("a shell ended")
	}
	// Each is a process and its child; the two shells are added.
	other.Members(lookalikes)
	require.Equal(t, len(other.Holders()), 2*lookalikes+2)
	t.Logf("figure: %d of %d tasks ended by their rule, %d at once; %d lookalikes live", tasks, tasks, most, lookalikes)
	for _, x := range []*stage.Marker{m, other} {
		x.Kill()
		x.Gone()
	}
	for _, p := range []*stage.Process{leaking, lookalike, another} {
		p.Wait()
	}
}

// shell is a shell under another name that holds the marker.
func shell(m *stage.Marker, path, script string) *exec.Cmd {
	cmd := exec.Command(path, "-c", script)
	cmd.Env = append(os.Environ(), m.Env()...)
	return cmd
}

// A server that its agent left behind keeps port and parent; the agent is a session
// from its exec on, though it was not started by "lineage run".
func TestAgentCrashes(t *testing.T) {
	i := stage.New(t)
	agent := filepath.Join(i.Dir, "lngtest-agent")
	require.NoError(t, os.Symlink("/bin/sh", agent))
	exe, err := filepath.EvalSymlinks("/bin/sh")
	require.NoError(t, err)
	i.Daemon("--policy", i.Policy(fmt.Sprintf("mode: enforce\nagents:\n  - {name: lngtest-agent, enabled: true, match: {comm: lngtest-agent, exe: %s}, grace: 200ms}\n", exe)))
	m := stage.NewMarker(t, i.Dir)
	cmd := shell(m, agent, "(setsid "+stage.Program("port")+" &); exec 9>"+m.Path+"; sleep 60")
	p := stage.Start(t, cmd)
	m.Ready()
	var s []api.Session
	i.Until("the agent's session", func() bool { s = byRule(i, "lngtest-agent"); return len(s) > 0 }) // checked after its start
	if len(s) != 1 || s[0].Root == nil || s[0].Root.PID != p.Process.Pid {
		t.Fatalf("sessions %+v", s)
	}
	i.Agrees("members", func() error {
		if s := i.Record(s[0].ID); s.Live < 2 {
			return fmt.Errorf("live %d", s.Live)
		}
		return nil
	})
	began := time.Now()
	require.NoError(t, p.Process.Kill())
	m.Gone()
	t.Logf("figure: the port's holder was gone %v after its agent, with a grace of 200ms", time.Since(began).Round(time.Millisecond))
	p.Wait()
}

// A running process is adopted by name and ends like any session; its kept processes
// stay alive.
func TestAdoptAndKeep(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	p := stage.Start(t, shell(m, "/bin/sh", "exec 9>"+m.Path+"; sleep 300 & echo $! >&9; (setsid sleep 301 & echo $! >&9); sleep 302 & echo started >&9; wait"))
	m.Line("started", 1)
	i.Must("adopt", fmt.Sprint(p.Process.Pid), "--name", "found", "--grace", "0s")
	s := i.Session("found")
	if s.Live != 3 { // the orphan was orphaned before the adoption
		t.Errorf("%+v", s)
	}
	var kept int
	i.Until("adopted child in the tree", func() bool { // it has its arguments from its exec on
		for _, n := range stage.Query[api.Tree](i, "tree", "found").Nodes {
			if n.Evidence != nil && n.Evidence.Kind == "adopted" && len(n.Argv) == 2 && n.Argv[1] == "300" {
				kept = n.PID
			}
		}
		return kept != 0
	})
	k := stage.Query[api.Session](i, "keep", fmt.Sprint(kept), "--reason", "a test wants it", "--until", "1h")
	if !k.Kept || k.Reason == "" {
		t.Errorf("%+v", k)
	}
	if text := i.Must("tree", k.ID).Out.String(); !strings.Contains(text, "kept until ") || !strings.Contains(text, " by uid 0 (") || !strings.Contains(text, "): a test wants it") {
		t.Error(text)
	}
	require.Contains(t, i.Must("ls").Out.String(), "active,kept")
	i.End("found")
	p.Wait()
	if err := unix.Kill(kept, 0); err != nil {
		t.Errorf("the kept process: %v", err)
	}
	if left := m.Holders(); len(left) != 2 {
		t.Errorf("alive: %v, want the kept one and the orphan", left)
	}
	i.End(k.ID)
	m.Kill()
	m.Gone()
}

// A script that runs when the daemon starts already has its interpreter's name.
// Processes that it lost before are found by a variable that only its descendants have;
// they get a companion session, and stay alive.
func TestAgentRunsAlready(t *testing.T) {
	i := stage.New(t)
	agent, m := filepath.Join(i.Dir, "lngtest-script"), stage.NewMarker(t, i.Dir)
	text := `#!/usr/bin/env sh
export CLAUDE_CODE_SESSION_ID=lngtest-$$
sleep 300 &
(setsid sleep 301 & echo "lost $!" >&9)
echo started >&9
wait
`
	require.NoError(t, os.WriteFile(agent, []byte(text), 0o755))
	p := stage.Start(t, shell(m, "/bin/sh", "exec 9>"+m.Path+"; exec "+agent))
	m.Line("started", 1)
	lost := stage.Number(t, m.Line("lost", 1)[0])
	i.Daemon("--policy", i.Policy("mode: enforce\nagents:\n  - {name: lngtest-script, enabled: true, match: {comm: lngtest-script}, grace: 0s}\n"))
	var found []api.Session
	i.Until("the session of what runs already", func() bool { // its child is adopted later
		found = byRule(i, "lngtest-script")
		return len(found) == 1 && found[0].Live == 2
	})
	if s := found[0]; s.Root.PID != p.Process.Pid {
		t.Errorf("%+v", s)
	}
	i.Until("what it had lost", func() bool { // why has another document until then
		return slices.ContainsFunc(stage.Query[api.Sessions](i, "ls").Items, func(s api.Session) bool { return s.BrokeredBy == found[0].ID })
	})
	why := stage.Query[api.Why](i, "why", fmt.Sprint(lost))
	if b := why.Brokered; why.Session.BrokeredBy != found[0].ID || b == nil || b.Ends || b.Evidence.Source != "cookie" || b.Evidence.Confidence != "weak" {
		t.Errorf("%+v, %+v", why.Session, b)
	}
	i.End(found[0].ID)
	p.Wait()
	if left := m.Holders(); len(left) != 1 || left[0] != lost {
		t.Errorf("alive: %v, want %d", left, lost)
	}
	i.End(why.Session.ID)
	m.Gone()
}
