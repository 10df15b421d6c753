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

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// What a serving daemon has: capabilities(7).
const (
	daemonCaps   = "0000000000080024" // CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SYS_PTRACE
	overrideCaps = "0000000000080026" // and CAP_DAC_OVERRIDE
	noCaps       = "0000000000000000"
)

// checkCaps checks every thread of the daemon.
func checkCaps(t *testing.T, pid int, want string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads of %d: %v %v", pid, tasks, err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for field, want := range map[string]string{
			"CapEff": want, "CapPrm": want, "CapBnd": want, "CapInh": noCaps, "CapAmb": noCaps, "NoNewPrivs": "1",
		} {
			if !strings.Contains(string(text), "\n"+field+":\t"+want+"\n") {
				t.Errorf("%s: %s is not %s:\n%s", task, field, want, text)
			}
		}
	}
}

// A daemon that dropped its privileges still does all of its work at every level: it
// sees what other users hold, ends what they started, rereads its policy, and can be
// replaced by another daemon.
func TestPrivileges(t *testing.T) {
	for level := 2; level <= 4; level++ {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) {
			i := stage.New(t)
			flags := []string{"--level", fmt.Sprint(level), "--policy", i.Policy("mode: observe\n")}
			first := i.Daemon(flags...)
			status := i.Status()
			tracertest.NeedsLevel(t, level, status.Level)
			require.Equal(t, status.Level, level)
			if want := []string{"cap_dac_read_search", "cap_kill", "cap_sys_ptrace"}; !slices.Equal(status.Capabilities, want) {
				t.Errorf("status has %v, want %v", status.Capabilities, want)
			}
			if slices.ContainsFunc(status.Degraded, func(s string) bool { return strings.Contains(s, "privileges") }) {
				t.Errorf("degraded: %v", status.Degraded)
			}
			checkCaps(t, first.Process.Pid, daemonCaps)

			m := stage.NewMarker(t, i.Dir)
			run := i.StartNobody(m.Env(), "run", "--name", "theirs", "--grace", "0s", "--", i.Copy(stage.Program("hop")))
			m.Ready()
			if p := i.Must("why", m.Path); !strings.Contains(p.Out.String(), "theirs") {
				t.Errorf("who holds the marker: %v", p)
			}

			require.NoError(t, first.Process.Kill())
			first.Wait()
			second := i.Daemon(flags...)
			checkCaps(t, second.Process.Pid, daemonCaps)
			i.Policy("mode: enforce\n")
			require.NoError(t, second.Process.Signal(unix.SIGHUP))
			i.Until("enforcing daemon", func() bool { return i.Status().Mode == "enforce" })
			i.Finish(m, run, "theirs")
			if second.Terminate(); second.Code() != 0 {
				t.Error(second)
			}
			i.Must("daemon", "--socket", i.Socket, "--unload")
		})
	}
}

// A daemon that a command started exits when it is not needed and unloads its programs, without a
// capability for it: nothing is left.
func TestPrivilegesEphemeral(t *testing.T) {
	i := stage.New(t)
	i.Daemon("--ephemeral=3s")
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--name", "first"}, "daemonise", "stay")
	m.Ready()
	v := i.Version()
	if v == nil || !v.Ephemeral {
		t.Fatalf("version %+v", v)
	}
	checkCaps(t, v.PID, daemonCaps)
	if p := i.Must("run", "--", "true"); p.Out.Len()+p.Err.Len() != 0 {
		t.Errorf("run true is not silent: %v", p)
	}
	i.Finish(m, run, "first")
	for _, path := range []string{i.Pins(), i.Socket} {
		i.Until("end of "+path, func() bool { _, err := os.Stat(path); return os.IsNotExist(err) })
	}
	i.Until("exit of the ephemeral daemon", func() bool { return stage.ProcStatus(v.PID, "Pid") == "" })
}

// In another user's directory, root may write only with CAP_DAC_OVERRIDE. There the history
// is kept in memory, as that user could replace its directory.
func TestPrivilegesInAForeignDirectory(t *testing.T) {
	i := stage.New(t)
	require.NoError(t, os.Chown(i.Dir, stage.Nobody, stage.Nobody))
	d := i.Daemon()
	checkCaps(t, d.Process.Pid, overrideCaps)
	i.Must("run", "--", "true")
	d.Terminate()
	failed := func(line string) bool {
		return strings.Contains(line, `"level":"error"`) && !strings.Contains(line, "history")
	}
	lines := strings.Split(d.Err.String(), "\n")
	if d.Code() != 0 || slices.ContainsFunc(lines, failed) || !strings.Contains(d.Err.String(), "belongs to uid 65534") {
		t.Error(d)
	}
	if _, err := os.Stat(i.Socket); !os.IsNotExist(err) {
		t.Errorf("socket: %v", err)
	}
}

// without starts a daemon that does not have these capabilities.
func without(i *stage.Instance, names ...string) *stage.Process {
	i.T.Helper()
	d := stage.Start(i.T, exec.Command("setpriv", "--bounding-set=-"+strings.Join(names, ",-"), stage.Lineage, "daemon", "--socket", i.Socket))
	i.Until("daemon that answers", func() bool { return d.Exited() || i.Version() != nil })
	return d
}

// A daemon that can load programs only by CAP_SYS_ADMIN, as under docker before version
// 23, keeps it if the kernel checks it at each request.
func TestPrivilegesWithoutBPF(t *testing.T) {
	i := stage.New(t)
	d := without(i, "bpf", "perfmon")
	status := i.Status()
	if slices.Contains(status.Capabilities, "cap_sys_admin") != gated() || len(status.Degraded) > 0 {
		t.Errorf("capabilities %v, degraded %q", status.Capabilities, status.Degraded)
	}
	require.Equal(t, i.Lineage("run", "--", "true").Code(), api.ExitOK)
	d.Terminate()
}

// gated reports whether the kernel may deny all of bpf(2) to a process with neither
// CAP_BPF nor CAP_SYS_ADMIN.
func gated() bool {
	var major, minor int
	fmt.Sscanf(procfs.KernelRelease(), "%d.%d", &major, &minor)
	return major < 5 || major == 5 && minor < 19
}

// A daemon that cannot drop its privileges still serves, and reports this.
func TestPrivilegesKept(t *testing.T) {
	i := stage.New(t)
	d := without(i, "setpcap")
	status := i.Status()
	if !slices.ContainsFunc(status.Degraded, func(s string) bool { return strings.HasPrefix(s, "privileges were not given up: ") }) {
		t.Errorf("degraded: %q", status.Degraded)
	}
	require.Equal(t, i.Lineage("run", "--", "true").Code(), api.ExitOK)
	d.Terminate()
}
