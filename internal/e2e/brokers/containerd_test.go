//go:build linux

package brokers

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

const containerdRules = `mode: enforce
breaker: {ends_per_minute: 10000}
containers:
  - {name: lngtest-pods, match: {namespace: lngtest, pod: 'box-*', container: work, env: LINEAGE_EXEC=end}, grace: 100ms}
`

// TestPods: a kubelet's exec in a pod is a session with the names of pod and container, also where the containers of the pod
// share a PID namespace. What it left ends with it, and nothing of the pod does; one that takes too long is ended by the runtime.
func TestPods(t *testing.T) {
	i := stage.New(t)
	others, left := stage.NewMarker(t, i.Dir), stage.NewMarker(t, i.Dir)
	i.Daemon("--policy", i.Policy(containerdRules))
	c := stage.NewContainerd(i)
	c.Import("sh", "sleep", "setsid", "env")
	cri := func(args ...string) *exec.Cmd {
		return exec.Command("../../../bin/testdata/cri", append([]string{c.Socket}, args...)...)
	}

	up := 0
	for _, shared := range []string{"shared", "alone"} {
		name := "box-" + shared
		pod := c.Must(cri("pod", "lngtest", name, c.Group, shared))
		box := c.Must(cri("run", pod, "work", c.Image, i.Dir, "/bin/sh", "-c", "exec 9>"+others.Path+"; sleep 300 & sleep 301"))
		side := c.Must(cri("run", pod, "side", c.Image, i.Dir, "/bin/sh", "-c", "sleep 300 & sleep 301"))
		others.Wait("process in the container", func(alive bool) bool { return alive })
		processes := func() (all string) {
			for _, id := range []string{pod, box, side} {
				all += c.Must(c.Command("-n", "k8s.io", "tasks", "ps", id)) + "\n"
			}
			return all
		}
		before := processes()
		execute := func(container, seconds, script string) *stage.Process {
			up++
			p := stage.Start(t, cri("exec", container, seconds, "/bin/sh", "-c", "exec 9>"+left.Path+"; echo up >&9; "+script))
			left.Line("up", up)
			return p
		}
		for round := range tracertest.FromEnv(t, "LNGTEST_ROUNDS", 1) {
			for _, tree := range leftovers {
				for _, end := range []struct{ seconds, script string }{{"30", "exit 7"}, {"1", "sleep 99"}} {
					client := execute(box, end.seconds, tree.script+"\n"+end.script)
					client.Wait()
					if timed := end.seconds == "1"; timed != (client.Code() != 0) || !timed && !strings.HasPrefix(client.Out.String(), "7 ") {
						t.Errorf("%s, round %d: %v", tree.name, round, client)
					}
					left.Wait("end of "+tree.name+" in "+name, func(alive bool) bool { return !alive })
				}
			}
		}
		client := execute(side, "30", "exec sleep 2") // no rule is for it
		running := execute(box, "30", "sleep 123 & sleep 124; :")
		var s api.Session
		i.Until("session of the command", func() bool {
			all := stage.Query[api.Sessions](i, "ls", "--pod", "lngtest/"+name).Items
			for _, x := range all {
				if x.State == api.StateActive && x.Live == 3 && x.ContainerRule != "" {
					s = x
				}
			}
			return s.ID != ""
		})
		want := api.Container{ID: box, Name: "work", Image: c.Image, Runtime: "containerd", Pod: name, Namespace: "lngtest"}
		if s.ContainerRule != "lngtest-pods" || s.Container == nil || *s.Container != want {
			t.Errorf("%+v, in %+v", s, s.Container)
		}
		i.End(s.ID)
		running.Wait()
		client.Wait()
		left.Gone()
		for _, x := range stage.Query[api.Sessions](i, "history", "--limit", "0").Items {
			if x.ContainerRule != "lngtest-pods" || x.Container == nil || x.Container.Name != "work" {
				t.Errorf("%+v, in %+v", x, x.Container)
			}
		}
		if now := processes(); now != before {
			t.Errorf("the pod had\n%s\nand has\n%s", before, now)
		}
		c.Must(cri("remove", pod))
		others.Gone()
	}
}
