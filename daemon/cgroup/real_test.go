//go:build linux

package cgroup_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// memoryGroups is the mount of version 2, if it has the memory controller.
func memoryGroups(t *testing.T) string {
	t.Helper()
	const mount = "/sys/fs/cgroup"
	all, _ := os.ReadFile(mount + "/cgroup.controllers")
	if !strings.Contains(string(all), "memory") {
		t.Skip("this host's cgroup v2 has no memory controller")
	}
	require.NoError(t, os.WriteFile(mount+"/cgroup.subtree_control", []byte("+memory"), 0))
	return mount
}

// limited is a session with a limit of 48 MiB.
type limited struct {
	*host
	s           *registry.Session
	outer, leaf string
}

func newLimited(t *testing.T) *limited {
	mount := memoryGroups(t)
	outer, err := os.MkdirTemp(mount, "lngtest-")
	require.NoError(t, err)
	l := &limited{newHost(t, mount), nil, outer, outer + "/own/leaf"}
	t.Cleanup(func() {
		for _, dir := range []string{l.leaf, outer + "/own", outer} {
			until(t, "empty cgroup", func() bool {
				for pid := range strings.FieldsSeq(string(require.ReadFile(t, dir+"/cgroup.procs"))) {
					n, err := strconv.Atoi(pid)
					require.NoError(t, err)
					_ = syscall.Kill(n, syscall.SIGKILL) // it may have exited
				}
				return os.Remove(dir) == nil
			})
		}
	})
	require.NoError(t, os.MkdirAll(l.leaf, 0o755))
	for _, dir := range []string{outer, outer + "/own"} {
		require.NoError(t, os.WriteFile(dir+"/cgroup.subtree_control", []byte("+memory"), 0))
	}
	require.NoError(t, os.WriteFile(outer+"/own/memory.max", []byte("50331648"), 0))
	l.K.Add(100, 1, "lngtest-root")
	l.s = l.Create(tracer.SessionSpec{Root: l.K.Proc(100).Identity, Name: "web"})
	l.K.Advance(time.Minute)
	l.watch(l.s, "/"+filepath.Base(outer)+"/own")
	l.K.Advance(time.Minute)
	return l
}

// start starts a command in the leaf.
func (l *limited) start(args ...string) (*exec.Cmd, *bufio.Reader) {
	l.t.Helper()
	d, err := os.Open(l.leaf)
	require.NoError(l.t, err)
	defer d.Close()
	c := exec.Command(args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(d.Fd())}
	out, err := c.StdoutPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, c.Start())
	l.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c, bufio.NewReader(out)
}

// killed waits until a command was killed, and reports its exit to the daemon as the kernel side does.
func (l *limited) killed(want string, args ...string) {
	l.t.Helper()
	c, _ := l.start(args...)
	c.Wait()
	require.Equal(l.t, c.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGKILL)
	l.apply(tracer.Event{Type: tracer.EventExit, Process: l.K.Proc(100).Identity, Session: l.s.ID(), ExitStatus: 9,
		MaxRSS: uint64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) << 10,
		Signal: &tracer.Signal{Number: 9, Sender: lineage.ByOOM, Time: uint64(l.K.Now())}})
	_, said := l.outside(l.s)
	if !regexp.MustCompile("^killed by the OOM killer: " + want + "$").MatchString(said) {
		l.t.Errorf("%q, want %q", said, want)
	}
}

const program = "../../bin/testdata/lngtest-"

// TestRealTmpfs: what a member writes into a tmpfs is charged. It dies with little of its own, and nothing is free after it.
func TestRealTmpfs(t *testing.T) {
	l := newLimited(t)
	file := filepath.Join("/dev/shm", filepath.Base(l.outer))
	t.Cleanup(func() { os.Remove(file) })
	l.killed(`memory limit 48MiB of session web, it had \d\d?(\.\d)?MiB(; peak 48MiB)?`, "sh", "-c", "exec head -c 67108864 /dev/zero >"+file)
	b := require.ReadFile(t, l.outer+"/own/memory.current")
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n < 40<<20 {
		t.Errorf("%d bytes are charged, %v", n, err)
	}
}

// TestRealLargestDies: many small processes beside a large one: that one dies, though they grow.
func TestRealLargestDies(t *testing.T) {
	l := newLimited(t)
	_, out := l.start(program+"bigmem", "30")
	large := 0
	for line := ""; line != "ready\n"; {
		var err error
		line, err = out.ReadString('\n')
		require.NoError(t, err)
		fmt.Sscanf(line, "member %d", &large)
	}
	small := 0
	until(t, "death by memory", func() bool {
		l.start(program+"bigmem", "1")
		small++
		return !strings.Contains(string(require.ReadFile(t, l.leaf+"/memory.events.local")), "oom_kill 0\n")
	})
	until(t, "death of the large one", func() bool {
		st, err := procfs.FS("/proc").Stat(uint32(large))
		return err != nil || st.State == 'Z'
	})
	if all := strings.Count(string(require.ReadFile(t, l.leaf+"/cgroup.procs")), "\n"); all < small {
		t.Errorf("%d processes are left after %d small ones", all, small)
	}
	t.Logf("figure: the large one died for %d small ones", small)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(require.Slowed(20 * time.Second)); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no " + what)
		}
	}
}
