//go:build linux

package image

import (
	"fmt"
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
)

// policy writes files as kubelet mounts a ConfigMap: behind two links. It returns their directory.
func (s *shop) policy(text string) string {
	s.T.Helper()
	dir := filepath.Join(s.Dir, "etc")
	require.NoError(s.T, os.MkdirAll(dir+"/..2026", 0o755))
	require.NoError(s.T, os.WriteFile(dir+"/..2026/policy.yaml", []byte(text), 0o644))
	require.NoError(s.T, os.Symlink("..2026", dir+"/..data"))
	require.NoError(s.T, os.Symlink("..data/policy.yaml", dir+"/policy.yaml"))
	return dir
}

// TestDaemonSet: a container as that of packaging/kubernetes, whose privileges internal/arch compares
// with the documented docker command: with a cgroup namespace of its own, a policy from a ConfigMap, and a
// read-only root. After a kill the kernel ends sessions, and the next container has the others. The last one unloads.
func TestDaemonSet(t *testing.T) {
	s := newShop(t)
	agent := filepath.Join(s.Dir, "lngtest-node")
	require.NoError(t, os.Rename(s.program("daemonise"), agent))
	etc := s.policy("version: 1\nmode: enforce\nagents:\n  - name: node\n    enabled: true\n    match: {comm: lngtest-node}\n    grace: 0s\n" +
		"containers:\n  - {name: execs, match: {container: lngtest-named}, grace: 0s}\n")
	command := s.replaced(s.daemon(), " --cgroupns host", " --cgroupns private --read-only -v "+etc+":/etc/lineage:ro")
	if !s.serve(command) {
		t.Fatal(s.said())
	}
	if status := s.Status(); len(status.Degraded) > 0 || status.Mode != "enforce" {
		t.Errorf("mode %s, degraded %q", status.Mode, status.Degraded)
	}
	s.traces(s.asNobody)
	m := stage.NewMarker(t, s.Dir)
	cmd := exec.Command(agent, "stay")
	cmd.Env = append(os.Environ(), m.Env()...)
	stage.Start(t, cmd)
	left := s.member(m)
	why := stage.Query[api.Why](s.Instance, "why", fmt.Sprint(left))
	if why.Session == nil || why.Session.Rule != "node" {
		t.Fatalf("why %d: %+v", left, why)
	}
	require.NoError(t, unix.Kill(why.Session.Root.PID, unix.SIGKILL))
	m.Gone() // by the rule

	app := s.application("daemonise")
	s.docker.Must("run", "-d", "--name", "lngtest-named", "--network", "none", "-v", s.Dir+":"+s.Dir, app, "/sleep", "600")
	t.Cleanup(func() { s.docker.Must("rm", "-f", "lngtest-named") })
	s.Must("adopt", fmt.Sprint(s.inspect("lngtest-named", "Pid")), "--name", "adopted")
	if c := s.Session("adopted").Container; c == nil || c.Name != "lngtest-named" {
		t.Errorf("container %+v", c)
	}
	m = stage.NewMarker(t, s.Dir)
	args := []string{"exec", "lngtest-named", "/daemonise", "stay"}
	for _, e := range m.Env() {
		args = slices.Insert(args, 1, "-e", e)
	}
	client := stage.Start(t, s.docker.Command(args...))
	m.Ready()
	left = m.Holders()[0] // it says the PID that it has in there
	s.Until("the session of a command in a container", func() bool {
		why = stage.Query[api.Why](s.Instance, "why", fmt.Sprint(left))
		return why.Session != nil && why.Session.ContainerRule == "execs"
	})
	require.NoError(t, unix.Kill(why.Session.Root.PID, unix.SIGKILL))
	m.Gone() // by the rule
	client.Wait()
	if p := s.Must("top"); !strings.Contains(p.Out.String(), "adopted") { // off a terminal: the tree
		t.Error(p)
	}
	s.End("adopted")

	m = stage.NewMarker(t, s.Dir)
	run, left := s.leaves(m)
	id := s.Session("work").ID
	other := stage.NewMarker(t, s.Dir)
	second := s.StartNobody(other.Env(), "run", "--name", "second", "--grace", "0s", "--", s.Copy(stage.Program("port")), "0")
	other.Line("port", 1)
	root := s.Session("second").Root.PID
	level := s.Status().Level
	s.docker.Must("kill", "-s", "KILL", name)
	if level >= 4 {
		require.NoError(t, unix.Kill(root, unix.SIGKILL))
		other.Gone() // by the kernel
	}
	s.docker.Must("start", name)
	s.Until("daemon that answers", func() bool { return s.Version() != nil })
	if why := stage.Query[api.Why](s.Instance, "why", fmt.Sprint(left)); why.Session == nil || why.Session.ID != id {
		t.Errorf("after a kill: %+v", why)
	}
	s.Finish(m, run, "work")
	if level < 4 {
		s.End("second")
	}
	second.Wait()

	s.docker.Must("stop", name)
	if p := s.sh(s.replaced(command, "-d --name lineage", "--rm") + " --unload").Wait(); p.Code() != 0 { // as packaging/kubernetes/unload
		t.Error(p)
	}
}
