//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

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
	if b := why.Brokered; why.Session.BrokeredBy != found[0].ID || b == nil || b.Ends ||
		b.Evidence.Source != "cookie" || b.Evidence.Confidence != "weak" {
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
