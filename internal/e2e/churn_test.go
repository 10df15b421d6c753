//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const churnRules = `mode: enforce
breaker: {ends_per_minute: 10000}
containers:
  - {name: lngtest-churn, match: {env: LNGTEST=churn}, grace: 100ms, brief: 5s}
`

// The tests of this file start containers, and commands in them, as fast as the runtime can or for long. No slot of a session is
// lost, there is a record of each command that has left something and of no other one, and memory is bounded.

// TestContainerChurn: containers as fast as runc starts them on two CPUs.
func TestContainerChurn(t *testing.T) {
	c := newChurn(t)
	began := time.Now()
	c.containers(time.Duration(min(c.seconds, 30)) * time.Second)
	n := c.settled(-1)
	c.rate("runc: containers with a command in each", c.made.Load(), began)
	c.over()
	t.Logf("figure: %d of %d commands were met before their container ended, and are on record", n, c.made.Load())
}

// TestCommandChurn: ten commands a second in one container.
func TestCommandChurn(t *testing.T) {
	const grows = 32 << 20 // bytes of RSS between two garbage collections
	c := newChurn(t)
	first := max(c.seconds/3, 1)
	records := c.commands(first)
	c.settled(records)
	early := footprintOf(c.Instance, c.kernel, c.pid)
	t.Logf("figure: after a third: %v", early)
	records += c.commands(c.seconds - first)
	c.settled(records)
	if late := c.over(); late.resident > early.resident+grows || late.heap > early.heap+grows || late.open > early.open+4 || late.kernel != early.kernel {
		t.Errorf("grown: %v after a third, %v in the end", early, late)
	}
}

// TestDockerChurn: commands, and containers, as fast as dockerd starts them. It takes more than some seconds.
func TestDockerChurn(t *testing.T) {
	if os.Getenv("LNGTEST_CHURN") == "" {
		t.Skip("LNGTEST_CHURN is not set; run make churn")
	}
	c := newChurn(t)
	c.docker(time.Duration(min(c.seconds, 30)) * time.Second)
	c.settled(0)
	c.over()
}

// churn is a daemon, and containers.
type churn struct {
	*stage.Instance
	seconds int
	kernel  kernelSide
	pid     int // the daemon's
	group   *stage.Cgroup
	groupFD int
	left    *stage.Marker // held by what commands leave
	root    string        // of all containers
	spec    []byte
	made    atomic.Int64
	before  *api.Status
	most    footprint // RSS and descriptors
	slots   int64     // the most that were taken
}

func newChurn(t *testing.T) *churn {
	t.Helper()
	stage.Need(t, "churn", "runc", "/bin/busybox")
	i := stage.New(t)
	daemon := i.Daemon("--policy", i.Policy(churnRules))
	c := &churn{
		Instance: i, seconds: stage.FromEnv(t, "LNGTEST_CHURN", 3), kernel: kernelSideOf(i), pid: daemon.Process.Pid,
		group: stage.NewCgroup(t), left: stage.NewMarker(t, i.Dir), before: i.Status(),
	}
	c.prepare()
	c.settled(0)
	t.Logf("figure: before: %v", footprintOf(i, c.kernel, c.pid))
	return c
}

// over says what was used, and fails if anything was refused or lost.
func (c *churn) over() (now footprint) {
	c.T.Helper()
	now = footprintOf(c.Instance, c.kernel, c.pid)
	after := c.Status()
	c.T.Logf("figure: in the end: %v; at most RSS %.1f MiB, %d descriptors, %d slots; counters that moved: %s",
		now, float64(c.most.resident)/(1<<20), c.most.open, c.slots, moved(c.before.Counters, after.Counters))
	for _, name := range []string{"events_lost", "enter_failed", "dead_failed", "live_drift", "delete_failed", "stale_entries", "agent_refused", "no_session"} {
		if n := after.Counters[name] - c.before.Counters[name]; n != 0 {
			c.T.Errorf("%s is %d", name, n)
		}
	}
	if !slices.Equal(after.Degraded, c.before.Degraded) {
		c.T.Errorf("degraded by now: %v, before: %v", after.Degraded, c.before.Degraded)
	}
	return now
}

// prepare makes what all containers have in common.
func (c *churn) prepare() {
	c.T.Helper()
	c.root = filepath.Join(c.Dir, "root")
	require.NoError(c.T, os.MkdirAll(filepath.Join(c.root, "bin"), 0o755))
	for _, name := range []string{"sh", "sleep", "true", "cat"} {
		require.NoError(c.T, os.WriteFile(filepath.Join(c.root, "bin", name), require.ReadFile(c.T, "/bin/busybox"), 0o755))
	}
	var err error
	c.groupFD, err = unix.Open(c.group.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(c.T, err)
	c.T.Cleanup(func() { unix.Close(c.groupFD) })
	cmd := exec.Command("runc", "spec")
	cmd.Dir = c.Dir
	require.NoError(c.T, cmd.Run())
	c.spec = require.ReadFile(c.T, filepath.Join(c.Dir, "config.json"))
}

// container starts a container that waits for its end, and for what is left in it.
func (c *churn) container() (id string, end func()) {
	id = fmt.Sprintf("%064x", c.made.Add(1))
	var spec map[string]any
	err := json.Unmarshal(c.spec, &spec)
	if err == nil {
		process, linux := spec["process"].(map[string]any), spec["linux"].(map[string]any)
		process["terminal"], process["args"] = false, []string{"/bin/sh", "-c", "exec 3<&0; echo up; cat <&3 & wait"}
		process["env"] = []string{"PATH=/bin", "LNGTEST=churn"}
		linux["cgroupsPath"] = "/" + filepath.Base(c.group.Dir) + "/" + id
		spec["root"] = map[string]any{"path": c.root}
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{"destination": c.Dir, "source": c.Dir, "type": "bind", "options": []string{"rbind"}})
		err = os.Mkdir(c.bundle(id), 0o755)
	}
	text, _ := json.Marshal(spec) // it was JSON
	cmd := c.runc(id, "run", "--pid-file", "init.pid", id)
	in, failed := cmd.StdinPipe()
	out, broken := cmd.StdoutPipe()
	err = errors.Join(err, os.WriteFile(filepath.Join(c.bundle(id), "config.json"), text, 0o600), failed, broken)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.T.Error(err)
		return id, func() {}
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		c.T.Errorf("container %s says %q: %v", id, line, err)
	}
	return id, func() {
		in.Close()
		if err := errors.Join(cmd.Wait(), os.RemoveAll(c.bundle(id))); err != nil {
			c.T.Errorf("container %s: %v", id, err)
		}
	}
}

func (c *churn) bundle(id string) string { return filepath.Join(c.Dir, id) }

// runc is a command of runc's in a container's bundle. It is the supervisor of what it starts, unless that is detached.
func (c *churn) runc(id string, args ...string) *exec.Cmd {
	cmd := exec.Command("runc", append([]string{"--root", filepath.Join(c.Dir, "runc")}, args...)...)
	cmd.Dir = c.bundle(id)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: c.groupFD}
	return cmd
}

// run runs a command, which must succeed. What it starts may hold its output.
func (c *churn) run(cmd *exec.Cmd) {
	said, err := os.CreateTemp(c.Dir, "said-")
	if err != nil {
		c.T.Error(err)
		return
	}
	defer func() { said.Close(); os.Remove(said.Name()) }()
	cmd.Stderr = said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		c.T.Errorf("%v: %v: %s", cmd.Args, err, text)
	}
}

// leaves is a command that leaves a process, which holds the marker.
func (c *churn) leaves() []string {
	return []string{"/bin/sh", "-c", "exec 9>" + c.left.Path + "; sleep 60 & exit 0"}
}

// containers starts containers in two turns at once. In each a command leaves a process, which ends with the container.
func (c *churn) containers(long time.Duration) {
	c.T.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for time.Since(began) < long && !c.T.Failed() {
				id, end := c.container()
				c.run(c.runc(id, append([]string{"exec", id}, c.leaves()...)...))
				end()
			}
		})
	}
	c.watch(&all)
}

// commands starts ten commands a second in one container, for that many seconds. Each tenth leaves a process.
func (c *churn) commands(seconds int) (left int) {
	c.T.Helper()
	id, end := c.container()
	defer end()
	began, late := time.Now(), time.Duration(0)
	var all sync.WaitGroup
	all.Go(func() {
		for n := range seconds * 10 {
			due := began.Add(time.Duration(n) * 100 * time.Millisecond)
			late = max(late, -time.Until(due))
			<-time.After(time.Until(due))
			words := []string{"/bin/true"}
			if n%10 == 9 {
				words, left = c.leaves(), left+1
			}
			all.Go(func() { c.run(c.runc(id, append([]string{"exec", id}, words...)...)) })
		}
	})
	c.watch(&all)
	c.left.Gone()
	c.rate(fmt.Sprintf("runc: commands in one container, at most %v late", late.Round(time.Millisecond)), int64(seconds*10), began)
	return left
}

// docker runs commands and containers in four turns at once.
func (c *churn) docker(long time.Duration) {
	c.T.Helper()
	d := c.Instance.Docker()
	d.Import("lngtest", map[string]string{"bin/sh": "/bin/busybox", "bin/sleep": "/bin/busybox", "bin/true": "/bin/busybox"})
	d.Must("run", "-d", "--name", "lngtest-churn", "--network", "none", "-e", "LNGTEST=churn", "lngtest", "/bin/sleep", "600")
	for _, load := range []struct {
		what string
		args []string
	}{
		{"commands", []string{"exec", "lngtest-churn", "/bin/true"}},
		{"containers", []string{"run", "--rm", "--network", "none", "-e", "LNGTEST=churn", "lngtest", "/bin/true"}},
	} {
		var all sync.WaitGroup
		var n atomic.Int64
		began := time.Now()
		for range 4 {
			all.Go(func() {
				for time.Since(began) < long && !c.T.Failed() {
					c.run(d.Command(load.args...))
					n.Add(1)
				}
			})
		}
		c.watch(&all)
		c.rate("dockerd: "+load.what, n.Load(), began)
	}
}

func (c *churn) rate(what string, n int64, began time.Time) {
	c.T.Helper()
	took := time.Since(began).Seconds()
	c.T.Logf("figure: %s: %d in %.0f s, %.1f a second", what, n, took, float64(n)/took)
}

// watch notes the most of what is used until all are done.
func (c *churn) watch(all *sync.WaitGroup) {
	c.T.Helper()
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case <-time.After(200 * time.Millisecond):
			now := footprintOf(c.Instance, c.kernel, c.pid)
			c.most.resident, c.most.open = max(c.most.resident, now.resident), max(c.most.open, now.open)
			c.slots = max(c.slots, c.taken())
		}
	}
}

// taken is how many slots are in use, as the hooks count them.
func (c *churn) taken() int64 {
	c.T.Helper()
	text, err := c.kernel["bss"].LookupBytes(uint32(0))
	require.NoError(c.T, err)
	var shared bpf.LineageShared
	require.NoError(c.T, binary.Read(bytes.NewReader(text), binary.NativeEndian, &shared))
	return shared.Taken
}

// settled waits until no slot is in use, and the history has the records of n commands, which have left something, and no
// others; -1: any number. It returns how many there are.
func (c *churn) settled(n int) (records int) {
	c.T.Helper()
	c.Agrees("kernel side", func() error {
		entries, err := c.kernel.entries()
		if taken := c.taken(); err == nil && (taken != 0 || entries["sessions"] != 0 || entries["dead"]+entries["dying"]+entries["claims"] != 0) {
			err = fmt.Errorf("%d slots are in use, entries %v", taken, entries)
		}
		return err
	})
	c.Agrees("history", func() error {
		all := stage.Query[api.Sessions](c.Instance, "history", "--limit", "0").Items
		for _, s := range all {
			if s.ContainerRule != "lngtest-churn" || s.EndReason != "root_exit" || s.Verdict != api.VerdictClean {
				return fmt.Errorf("%+v", s)
			}
		}
		if records = len(all); n >= 0 && records != n {
			return fmt.Errorf("%d sessions, want %d", records, n)
		}
		return nil
	})
	return records
}
