//go:build linux

package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

const containerRules = `mode: enforce
defaults: {limits: {memory: 8GiB}}
containers:
  - {name: briefs, match: {container: brief}, brief: 1m, client: end}
  - {name: execs, match: {runtime: docker, container: we*, image: 'node:*'}, grace: 3s}
  - {name: boxes, match: {container: box*}, session: container, grace: 2s}
  - {name: nothing, match: {container: off}, session: off}
  - {name: opted, match: {env: 'LINEAGE_EXEC=*', label: [team=b, 'team=w**']}, idle: 1m}
  - {name: label, match: {label: 'team=**'}}
`

// shim has a container with a variable and a label, and the main process after it.
func (w *world) shim(pid uint32, name, env, label string) (cgroup string) {
	w.Helper()
	require.Root(w.T) // records are root's
	dir, id := w.TempDir(), strings.Repeat(fmt.Sprint(pid/10%10), 64)
	procfstest.Files(w, dir, map[string]string{
		id + "/config.json":           `{"process":{"env":["` + env + `=end"]},"mounts":[{"destination":"/etc/hostname","source":"` + dir + `/r/` + id + `/hostname"}]}`,
		id + "/init.pid":              fmt.Sprint(pid + 1),
		"r/" + id + "/config.v2.json": `{"ID":"` + id + `","Name":"/` + name + `","Config":{"Image":"node:22","Labels":{"` + label + `":"web/1"}}}`,
	})
	w.Add(pid, 1, 0, "containerd-shim")
	w.File(pid, "cgroup", "0::/system.slice/docker.service\n")
	w.symlink(pid, "cwd", filepath.Join(dir, id))
	w.symlink(pid, "root", "/")
	cgroup = "/docker/" + id
	w.room(pid+1, pid, cgroup)
	return cgroup
}

func (w *world) symlink(pid uint32, name, to string) {
	w.Helper()
	path := w.Host.Proc.Path(pid, name)
	require.NoError(w, os.MkdirAll(filepath.Dir(path), 0o700))
	_ = os.Remove(path)
	require.NoError(w, os.Symlink(to, path))
}

func (w *world) room(pid, parent uint32, cgroup string) {
	w.Helper()
	w.Add(pid, parent, 0, "sh")
	w.K.Edit(pid, func(p *kerneltest.Proc) { p.Init = parent + 1 })
	w.inside(pid, cgroup)
}

// inside has procfs show a process in a container.
func (w *world) inside(pid uint32, cgroup string) {
	w.Helper()
	w.File(pid, "cgroup", "0::"+cgroup+"\n")
	w.symlink(pid, "ns/pid", "pid:["+filepath.Base(cgroup)+"]")
}

// gone waits until a session has left no record.
func (w *world) gone(id tracer.SessionID) {
	w.Helper()
	w.Until(func() bool {
		held := true
		_, err := w.K.Session(id)
		_ = w.Service.Registry.Read(func(v registry.View) { held = v.Session(id) != nil })
		return err != nil && !held
	})
	w.Do("root", "GET", "/v1/sessions/"+id.String(), nil).Refused(api.CodeNotFound)
}

// TestContainers: a rule gives its terms to the session of what was put into its containers. What no rule wants is in no
// session, and nothing is signalled.
func TestContainers(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy(containerRules))
	web, off, other := w.shim(310, "web", "LINEAGE_EXEC", "team"), w.shim(320, "off", "", ""), w.shim(330, "other", "LINEAGE_EXECS", "")

	w.room(340, 310, web)
	id := w.K.PutIn(340, "sh")
	info := w.held(id)
	if info.Name != "execs" || info.Grace != 3*time.Second || !info.Joined {
		t.Errorf("%+v", info)
	}
	x := w.explained(340)
	if x.Rule != "containers.execs" || !strings.HasSuffix(x.Origin, "policy.yaml:6") || x.Effect != "opened session "+id.String()+", grace 3s" {
		t.Errorf("explained as %+v", x)
	}
	if x := w.explained(311); !strings.HasPrefix(x.Effect, "no effect: not put into the container") {
		t.Errorf("explained as %+v", x)
	}
	w.Until(func() bool {
		d := daemontest.Get[api.Session](w, "root", "/v1/sessions/execs")
		return d.ContainerRule == "execs" && d.Rule == "" && d.Container != nil && d.Container.Name == "web"
	})
	for pid, in := range map[uint32]string{341: off, 342: other, 343: "/user.slice"} {
		w.room(pid, map[string]uint32{off: 320, other: 330}[in], in)
		w.gone(w.K.PutIn(pid, "sh"))
	}
	w.K.Exit(340, 0)
	if r := w.Receipt(id.String()); r.EndReason != "root_exit" {
		t.Errorf("%+v", r)
	}
	w.Unsignalled()
	w.Halt()
	if strings.Contains(w.Audit(), "no rule") {
		t.Error("the audit log has what no rule wanted")
	}
}

// TestContainersBySpec: a rule matches what a container was created with, and a command that idles ends.
func TestContainersBySpec(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy(containerRules))
	both, one := w.shim(310, "a", "LINEAGE_EXEC", "team"), w.shim(320, "b", "LINEAGE", "team")
	w.room(340, 310, both)
	w.room(341, 320, one)
	id, other := w.K.PutIn(340, "sh"), w.K.PutIn(341, "sh")
	if info := w.held(id); info.Name != "opted" || info.Idle != time.Minute {
		t.Errorf("%+v", info)
	}
	require.Equal(t, w.held(other).Name, "label")
	if x := w.explained(340); x.Rule != "containers.opted" || !strings.HasSuffix(x.Effect, ", idle 1m0s") {
		t.Errorf("explained as %+v", x)
	}
	w.Look()
	w.K.Advance(time.Hour)
	w.Look()
	if r := w.Receipt(id.String()); r.EndReason != "idle" {
		t.Errorf("%+v", r)
	}
	if w.Dead(341) || !w.Dead(340) {
		t.Error("not the one that the rule is for has ended")
	}
}

// TestWholeContainers: a container is one session, from its main process on, and so are the commands that are put into it. One that
// no rule wants as a whole is in no session.
func TestWholeContainers(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy(containerRules))
	box := w.shim(310, "box", "", "")
	w.shim(350, "box2", "", "")
	w.shim(330, "web", "", "")
	// The daemon may also find one that runs: its look for them is not over.
	opened := func(pid uint32, exec func(uint32, string) tracer.SessionID) tracer.SessionID {
		t.Helper()
		exec(pid, "sh")
		info := w.held(w.K.Proc(pid).Session)
		if info.Name != "boxes" || info.Grace != 2*time.Second || info.Root.PID != pid {
			t.Errorf("%+v", info)
		}
		return info.ID
	}
	id := opened(311, w.K.Begin)
	w.Fork(311, 312, 0, "child")
	w.inside(312, box)
	w.room(340, 310, box)
	command := w.K.PutIn(340, "sh")
	w.gone(command)
	w.Until(func() bool { return w.K.Proc(340).Session == id })
	for pid, effect := range map[uint32]string{311: "opened session ", 312: "in session ", 340: "in session "} {
		if x := w.explained(pid); x.Rule != "containers.boxes" || !strings.HasPrefix(x.Effect, effect) {
			t.Errorf("explained as %+v", x)
		}
	}
	opened(351, w.K.PutIn) // its PID namespace is another container's
	w.gone(w.K.Begin(331, "sh"))

	w.End("root", id.String())
	for _, pid := range []uint32{311, 312, 340} {
		w.Until(func() bool { return w.Dead(pid) })
	}
	w.Survive([]uint32{310, 351, 331}, 310, 351, 331)
}

// TestRunningContainers: a rule opens a session over a container that runs when the rule comes into force, with all that its main
// process has started.
func TestRunningContainers(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy("mode: enforce\n"))
	w.shim(310, "box", "", "")
	w.shim(320, "web", "", "")
	w.room(340, 310, "")
	w.Fork(311, 312, 0, "child")
	boxed := func() {
		t.Helper()
		in := w.K.Proc(311).Session
		if info, err := w.K.Session(in); err != nil || info.Name != "boxes" || info.Root.PID != 311 || w.K.Proc(312).Session != in {
			t.Errorf("%+v, %v", info, err)
		}
	}
	w.Reload(containerRules)
	boxed()
	for _, pid := range []uint32{310, 320, 321, 340} {
		if p := w.K.Proc(pid); p.Session != 0 {
			t.Errorf("%d is in %v", pid, p.Session)
		}
	}
	w.Reload(containerRules) // which adopts nothing again
	boxed()
	w.Unsignalled()
}

// TestRunningContainersOnce: the main process of a container that an agent rule wants too is in one session, and one that is
// protected in none.
func TestRunningContainersOnce(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy("mode: enforce\n"))
	for pid, comm := range map[uint32]string{310: "lngtest-agent", 320: "lngtest-guarded"} {
		cgroup := w.shim(pid, "box", "", "")
		w.becomes(pid+1, pid, 0, comm)
		w.inside(pid+1, cgroup)
	}
	w.Reload(containerRules + `agents: [{name: agent, enabled: true, match: {comm: lngtest-agent}}]
protect: [{name: guarded, match: {comm: lngtest-guarded}, reason: test}]
`)
	all, err := w.K.Sessions()
	if err != nil || len(all) != 1 || all[0].Name != "agent" || all[0].Root.PID != 311 {
		t.Errorf("%+v, %v", all, err)
	}
	w.Unsignalled()
}

// TestBriefCommands: a command that exits soon leaves no record, unless it has left a process. One whose client was interrupted
// is judged at once.
func TestBriefCommands(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy(containerRules))
	brief := w.shim(310, "brief", "", "")
	w.room(340, 310, brief)
	id := w.K.PutIn(340, "true")
	w.K.Exit(340, 0)
	w.gone(id)

	w.room(341, 310, brief)
	id = w.K.PutIn(341, "sh")
	w.Fork(341, 342, 0, "left")
	w.inside(342, brief)
	w.K.Exit(341, 0)
	if r := w.Receipt(id.String()); r.EndReason != "root_exit" || r.Name != "briefs" {
		t.Errorf("%+v", r)
	}
	if !w.Dead(342) {
		t.Error("what the command left lives")
	}

	w.room(343, 310, brief)
	w.Hold(func() { // before it is judged
		id = w.K.PutIn(343, "sh")
		interrupted := fmt.Appendf(nil, `{"clients":{"Began":true,"Asker":%d,"Interrupted":true}}`, id)
		require.NoError(t, w.Service.Registry.Update(func(tx registry.Tx) { tx.Remember(id, interrupted, nil) }))
	})
	w.Until(func() bool {
		return daemontest.Get[api.Session](w, "root", "/v1/sessions/"+id.String()).ContainerRule == "briefs"
	})
}

// TestSandbox: no rule is for what is put into the sandbox of a pod.
func TestSandbox(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy("mode: enforce\ncontainers: [{name: pods, match: {namespace: build}}]\n"))
	box := w.shim(310, "", "", "")
	procfstest.Files(t, w.Host.Proc.Path(310, "cwd"), map[string]string{
		"config.json": `{"annotations":{"io.kubernetes.cri.sandbox-id":"s","io.kubernetes.cri.sandbox-name":"a","io.kubernetes.cri.sandbox-namespace":"build"}}`,
	})
	w.room(340, 310, box)
	w.gone(w.K.PutIn(340, "sh"))
}

// TestLeftElsewhere: what a command has left ends with it in a PID namespace of its own and outside of the container's cgroup; and
// what a rule cannot judge is counted and in the audit log.
func TestLeftElsewhere(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy(containerRules))
	box := w.shim(310, "web", "", "")
	for pid, to := range map[uint32]func(uint32){
		340: func(left uint32) { w.symlink(left, "ns/pid", "pid:[its own]") },
		350: func(left uint32) { w.File(left, "cgroup", "0::/user.slice\n") },
	} {
		w.room(pid, 310, box)
		id := w.K.PutIn(pid, "sh")
		w.Fork(pid, pid+1, 0, "left")
		w.inside(pid+1, box)
		to(pid + 1)
		w.K.Exit(pid, 0)
		if r := w.Receipt(id.String()); r.EndReason != "root_exit" || r.Name != "execs" || !w.Dead(pid+1) {
			t.Errorf("%+v, %v", r, w.Dead(pid+1))
		}
	}
	w.room(360, 320, "/docker/"+strings.Repeat("f", 64))
	w.gone(w.K.PutIn(360, "sh"))
	w.Halt()
	if !strings.Contains(w.Audit(), "no rule applied") {
		t.Error("it is not in the audit log")
	}
}

// TestUnreadRecord: policy explain and status say that no rule applies, while a container's record cannot be read.
func TestUnreadRecord(t *testing.T) {
	w := newWorld(t, daemontest.WithPolicy(containerRules))
	web := w.shim(310, "web", "", "")
	bundle, err := os.Readlink(w.Host.Proc.Path(310, "cwd"))
	require.NoError(t, err)
	record := filepath.Join(filepath.Dir(bundle), "r", filepath.Base(web), "config.v2.json")
	says := func(unread bool) {
		t.Helper()
		if x := w.explained(311); strings.Contains(x.Effect, "its container cannot be read") != unread {
			t.Errorf("explained as %+v", x)
		}
		if d := w.Status().Degraded; strings.Contains(fmt.Sprint(d), "no rule for containers applies to 111111111111: ") != unread {
			t.Errorf("degraded: %q", d)
		}
	}
	require.NoError(t, os.Rename(record, record+".away"))
	says(true)
	require.NoError(t, os.Rename(record+".away", record))
	says(false)
}
