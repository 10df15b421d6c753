//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// guest is a Maker for a host with systemd that is there only for the test: make test-systemd, LNGTEST_CHECKS=cgroups.
func guest(t *testing.T) *systemd {
	t.Helper()
	if os.Getenv("LNGTEST_GUEST") == "" || !booted() {
		t.Skip("runs in make test-systemd")
	}
	return &systemd{"/sys/fs/cgroup", "/proc"}
}

// unit starts a program in a unit of its own, and returns its process.
func unit(t *testing.T, name string, properties ...string) tracer.Identity {
	t.Helper()
	args := []string{"--quiet", "--collect", "--service-type=exec", "--unit=" + name}
	for _, p := range properties {
		args = append(args, "-p", p)
	}
	_, err := exec.Command("systemd-run", append(args, "sleep", "3600")...).CombinedOutput()
	require.NoError(t, err)
	out, err := exec.Command("systemctl", "show", "--value", "-p", "MainPID", name).Output()
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may be dead
	return identify(t, pid)
}

func identify(t *testing.T, pid int) tracer.Identity {
	t.Helper()
	st, err := procfs.FS("/proc").Stat(uint32(pid))
	require.NoError(t, err)
	return tracer.Identity{PID: uint32(pid), Start: st.Start * uint64(procfs.Tick)}
}

func kill(t *testing.T, s *systemd, group string, roots ...tracer.Identity) {
	t.Helper()
	for _, r := range roots {
		require.NoError(t, syscall.Kill(int(r.PID), syscall.SIGKILL))
	}
	require.Eventually(t, group+" is empty", func() bool {
		return strings.Contains(value(s.mount, group, "cgroup.events"), "populated 0")
	})
}

// TestSystemd: the life of a session's cgroups, also where systemd stops slices that are not needed.
func TestSystemd(t *testing.T) {
	s := guest(t)
	for slice, path := range map[string]string{"system": "/system.slice", "user-1000": "/user.slice/user-1000.slice"} {
		root := unit(t, "lngtest-"+slice, "Slice="+slice+".slice")
		limits := &api.Limits{MemoryBytes: 64 << 20, MemoryHighBytes: 60 << 20, CPUs: 0.5, Tasks: 50, IOWeight: 250}
		group, err := s.Make(root, limits)
		require.NoError(t, err)
		stem := slice + "-" + nameOf(root)
		leaf := group + "/" + stem + ".scope"
		require.Equal(t, group, path+"/"+stem+".slice")
		require.Equal(t, s.proc.Cgroup(root.PID), leaf)
		for file, want := range map[string]string{
			"memory.max": "67108864", "memory.swap.max": "0", "memory.high": "62914560", "memory.oom.group": "0",
			"cpu.max": "50000 100000", "pids.max": "50", "io.weight": "default 250",
		} {
			require.Equal(t, value(s.mount, group, file), want)
		}
		_, err = s.Make(root, &api.Limits{})
		require.Contains(t, fmt.Sprint(err), "is the root of a session with limits")

		other, end := sleeper(t)
		require.NoError(t, s.Move(group, other, tracer.Identity{PID: 1 << 22}))
		require.Equal(t, s.proc.Cgroup(other.PID), leaf)
		require.NoError(t, s.Set(group, &api.Limits{MemoryBytes: 96 << 20}))
		require.Equal(t, value(s.mount, group, "memory.max"), "100663296")
		require.Equal(t, value(s.mount, group, "cpu.max"), "max 100000")
		require.Contains(t, fmt.Sprint(s.Remove(group)), "a process is in")
		require.NoError(t, exec.Command("systemctl", "daemon-reload").Run())
		require.Equal(t, value(s.mount, group, "memory.max"), "100663296")

		for want, frozen := range []bool{false, true} {
			require.NoError(t, s.Freeze(group, frozen))
			require.Contains(t, value(s.mount, group, "cgroup.events"), fmt.Sprint("frozen ", want))
		}

		end()
		kill(t, s, group, root) // frozen as they are
		require.Eventually(t, "the scope goes", func() bool { return value(s.mount, leaf, "cgroup.events") == "" })
		if value(s.mount, group, "memory.peak") == "" {
			t.Errorf("the account of %s is gone before it was read", group)
		}
		late, end := sleeper(t)
		require.NoError(t, s.Move(group, late))
		require.Equal(t, s.proc.Cgroup(late.PID), leaf)
		end()
		kill(t, s, group)
		require.NoError(t, s.Remove(group), s.Remove(group))
	}
	out, err := exec.Command("systemctl", "list-units", "--all", "--no-legend", "*lineage_*").Output()
	require.NoError(t, err)
	require.Equal(t, string(out), "")
	left, err := filepath.Glob(s.mount + "/*lineage*")
	require.NoError(t, err)
	require.Equal(t, len(left), 0)
}

// TestSystemdRefuses: a process leaves neither a limit nor a restriction of its unit, and keeps its TasksMax=. It is
// stopped with the unit.
func TestSystemdRefuses(t *testing.T) {
	s := guest(t)
	for property, want := range map[string]string{
		"MemoryMax=100M": "memory.max of /system.slice/lngtest-", "CPUQuota=50%": "cpu.max of /system.slice/lngtest-",
		"IPAddressDeny=any":  "has IPAddressDeny=",
		"PrivateDevices=yes": "has DevicePolicy=closed", "Delegate=yes": "has Delegate=true",
	} {
		name, _, _ := strings.Cut(property, "=")
		_, err := s.Make(unit(t, "lngtest-"+name, property), &api.Limits{MemoryBytes: 64 << 20})
		require.Contains(t, fmt.Sprint(err), want)
	}
	limited := unit(t, "lngtest-limited", "MemoryMax=100M")
	root := unit(t, "lngtest-tasks", "TasksMax=20")
	group, err := s.Make(root, &api.Limits{Tasks: 500})
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(s.Move(group, limited)), "memory.max of /system.slice/lngtest-limited.service")
	require.NoError(t, s.Set(group, &api.Limits{Tasks: 1000}))
	require.Equal(t, value(s.mount, group, "pids.max"), "20")
	require.NoError(t, exec.Command("systemctl", "stop", "lngtest-tasks").Run()) // which the root has left
	kill(t, s, group)
	require.NoError(t, s.Remove(group))
	_, err = s.Make(root, &api.Limits{})
	require.Contains(t, fmt.Sprint(err), "has exited")
}

// TestSystemdNested: the limit of the outer session holds: the hog dies. The outer one stays until the nested one is gone.
func TestSystemdNested(t *testing.T) {
	s := guest(t)
	root := unit(t, "lngtest-outer")
	group, err := s.Make(root, &api.Limits{MemoryBytes: 64 << 20})
	require.NoError(t, err)
	child, end := sleeper(t)
	require.NoError(t, s.Move(group, child))
	nested, err := s.Make(child, &api.Limits{MemoryBytes: 64 << 30})
	require.NoError(t, err)
	require.Equal(t, filepath.Dir(nested), group)
	hog := exec.Command("bash", "-c", "read; x=x; while :; do x=$x$x; done")
	feed, err := hog.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, hog.Start())
	require.NoError(t, s.Move(nested, identify(t, hog.Process.Pid)))
	_, err = feed.Write([]byte("\n"))
	require.NoError(t, err)
	_ = hog.Wait()
	require.Equal(t, hog.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGKILL)
	require.Contains(t, value(s.mount, group, "memory.events"), "oom_kill 1")
	require.Equal(t, strings.Contains(value(s.mount, group, "memory.events.local"), "oom 0\n"), false)

	require.NoError(t, syscall.Kill(int(root.PID), syscall.SIGKILL))
	leaf := filepath.Join(group, strings.TrimSuffix(filepath.Base(group), ".slice")+".scope")
	require.Eventually(t, "the outer scope goes", func() bool { return value(s.mount, leaf, "cgroup.events") == "" })
	again, endAgain := sleeper(t)
	require.NoError(t, s.Move(group, again))
	require.Equal(t, s.proc.Cgroup(again.PID), leaf)

	endAgain()
	end()
	kill(t, s, group)
	require.Contains(t, fmt.Sprint(s.Remove(group)), filepath.Base(nested)+" is in ")
	require.NoError(t, s.Remove(nested), s.Remove(group))
}
