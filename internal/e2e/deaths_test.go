//go:build linux

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// death is a way to die, and what run says about it.
type death struct {
	way     string
	command []string             // the session's; nil: a sleep
	kill    func(root int) error // done to the root; nil: the command does it
	want    string               // the line, as a regular expression; SENDER is this test
}

// sleep says who it is in a file.
var sleep = []string{"sh", "-c", "echo $$ >pid; exec sleep 60"}

func sleeper(i *stage.Instance) (pid int) {
	i.T.Helper()
	name := filepath.Join(i.Dir, "pid")
	i.Until("the command", func() bool {
		text, _ := os.ReadFile(name)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return pid > 1 && string(comm) == "sleep\n"
	})
	require.NoError(i.T, os.Remove(name))
	return pid
}

// TestDeaths: each way of notes has its own words, whatever the kernel side, and none has another's.
func TestDeaths(t *testing.T) {
	for name, flags := range map[string][]string{"best": nil, "level 2": {"--level", "2"}} {
		t.Run(name, func(t *testing.T) {
			i := stage.New(t)
			i.Daemon(flags...)
			for _, d := range deaths() {
				t.Run(d.way, func(t *testing.T) { d.die(i.In(t)) })
			}
			t.Run("limit of memory", func(t *testing.T) { outOfMemory(i.In(t), "") })
			t.Run("limit of an outer cgroup", func(t *testing.T) { outOfMemory(i.In(t), "inner") })
			t.Run("cgroup.kill", func(t *testing.T) { cgroupKilled(i.In(t)) })
			t.Run("terminal", func(t *testing.T) { hungUp(i.In(t)) })
		})
	}
}

func deaths() []death {
	dies, fault := stage.Program("dies"), stage.Program("fault")
	const own, child = `lngtest-\w+ \(\d+\) was killed by `, `lngtest-dies exited 137; \d+ lngtest-dies, `
	const member = child + "(a member of its session|its child), was killed by SIGKILL "
	other := `\d+ lngtest-dies, a member of this session`
	from := func(sig string) string {
		return `sleep \(\d+\) was killed by ` + sig + ` from SENDER; it is in no session, its parents are \d+ .+`
	}
	return []death{
		{"group", sleep, func(pid int) error { return unix.Kill(-pid, unix.SIGTERM) }, from("SIGTERM")},
		{"tgkill", sleep, func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGUSR1) }, from("SIGUSR1")},
		{"pidfd", sleep, func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			defer unix.Close(fd)
			return cmp.Or(err, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
		}, from("SIGKILL")},
		{"sigqueue", sleep, func(pid int) error {
			info := [32]int32{int32(unix.SIGHUP), 0, -1} // SI_QUEUE
			unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGHUP), uintptr(unsafe.Pointer(&info)))
			return nil // if it was not sent, the command sleeps
		}, from("SIGHUP")},
		{"F_SETOWN", sleep, signalOwner,
			`sleep \(\d+\) was killed by SIGTERM by the kernel: a file that signals it \(F_SETOWN\)`},
		{"member", []string{"sh", "-c", "sleep 60 & kill -9 $!; wait $!"}, nil,
			`sh exited 137; \d+ (sleep|sh), its child, was killed by SIGKILL from \d+ sh, a member of this session`},
		{"on its own", []string{"sh", "-c", "(exit 3); exit 137"}, nil, "sh exited 137 on its own"},
		{"kill -1", []string{dies, "others"}, nil, member + "from " + other},
		{"timer", []string{dies, "timer"}, nil, own + "SIGKILL, a timer's by its own account"},
		{"alarm", []string{fault, "alarm"}, nil, own + "SIGALRM by the kernel: its own timer"},
		{"PDEATHSIG", []string{dies, "parent"}, nil,
			member + "because its parent " + other + `, exited \(PDEATHSIG\)`},
		{"exit-kill", []string{dies, "tracer"}, nil, member + "because its tracer " + other + ", exited"},
		{"namespace", []string{dies, "namespace"}, nil,
			member + "because " + other + ", exited, PID 1 of its PID namespace"},
		{"RLIMIT_CPU", []string{dies, "cpu"}, nil, own + "SIGKILL by the kernel: its limit of CPU time"},
		{"RLIMIT_CPU, soft", []string{"sh", "-c", "ulimit -S -t 1; while :; do :; done"}, nil,
			`sh \(\d+\) was killed by SIGXCPU by the kernel: its limit of CPU time`},
		{"RLIMIT_FSIZE", []string{dies, "fsize"}, nil, own + "SIGXFSZ by the kernel: its limit of file size"},
		{"seccomp", []string{dies, "seccomp"}, nil, own + "SIGSYS" +
			`(, its own fault: a system call that is forbidden to it|; the sender is not known)`},
		{"autokill", []string{dies, "autokill"}, nil, member + "by the kernel"},
	}
}

// die runs the command in a session and compares what run says.
func (d *death) die(i *stage.Instance) {
	i.T.Helper()
	p := i.Start(append([]string{"run", "--"}, d.command...), nil)
	if d.kill != nil {
		require.NoError(i.T, d.kill(sleeper(i)))
	}
	if p.Wait(); strings.Contains(p.Err.String(), "clone3: Invalid argument") {
		tracertest.Lacks(i.T, tracertest.AtLeast(i.T, 7, 1), "no CLONE_PIDFD_AUTOKILL")
	}
	d.said(i.T, p.Err.String())
}

func (d *death) said(t *testing.T, got string) {
	t.Helper()
	comm := strings.TrimSpace(string(require.ReadFile(t, "/proc/self/comm")))
	want := strings.Replace(d.want, "SENDER", regexp.QuoteMeta(fmt.Sprintf("%d %s", os.Getpid(), comm)), 1)
	_, line, _ := strings.Cut(got, "lineage: ") // after what the command says
	if line, _, _ = strings.Cut(line, "\n"); !regexp.MustCompile("^" + want + "$").MatchString(line) {
		t.Errorf("run says\n%swant %s", got, want)
	}
}

// outOfMemory puts a command that wants 64 MiB below a limit of 16 MiB.
func outOfMemory(i *stage.Instance, below string) {
	root := stage.Mounted("cgroup", "memory")
	if root == "" {
		i.T.Skip("no memory controller of version 1 is mounted")
	}
	outer, err := os.MkdirTemp(root, "lngtest-")
	require.NoError(i.T, err)
	dir := filepath.Join(outer, below)
	require.NoError(i.T, os.MkdirAll(dir, 0o755))
	i.T.Cleanup(func() {
		i.Until("empty cgroup", func() bool { return os.Remove(dir) == nil || below == "" && os.Remove(outer) == nil })
		os.Remove(outer)
	})
	require.NoError(i.T, os.WriteFile(filepath.Join(outer, "memory.limit_in_bytes"), []byte("16M"), 0))
	d := death{command: []string{"sh", "-c",
		`echo $$ >"$0/cgroup.procs" && exec "$1" memory`, dir, stage.Program("dies")},
		want: `lngtest-dies \(\d+\) was killed by the OOM killer, it had \d+MiB`}
	d.die(i)
}

func cgroupKilled(i *stage.Instance) {
	g := stage.NewCgroup(i.T)
	if _, err := os.Stat(filepath.Join(g.Dir, "cgroup.kill")); err != nil {
		tracertest.Lacks(i.T, tracertest.AtLeast(i.T, 5, 14), err)
	}
	d := death{command: sleep,
		want: `sleep \(\d+\) was killed by SIGKILL by a write to cgroup.kill by SENDER; it is in no session.*`}
	d.kill = func(root int) error {
		err := os.WriteFile(filepath.Join(g.Dir, "cgroup.procs"), []byte(strconv.Itoa(root)), 0)
		return cmp.Or(err, os.WriteFile(filepath.Join(g.Dir, "cgroup.kill"), []byte("1"), 0))
	}
	d.die(i)
}

// hungUp closes the terminal of run.
func hungUp(i *stage.Instance) {
	said := filepath.Join(i.Dir, "said")
	term := i.TerminalOf(80, 24, "sh", "-c", `exec "$0" run -- sh -c "$2" 2>"$1"`, stage.Lineage, said, sleep[2])
	sleeper(i)
	term.Close()
	var got []byte
	i.Until("what run says", func() bool {
		got, _ = os.ReadFile(said)
		return len(got) > 0
	})
	d := death{want: `sleep \(\d+\) was killed by SIGHUP by the kernel: ` +
		`(the terminal was closed, passed on by the session's owner|its terminal was hung up, or .+)`}
	d.said(i.T, string(got))
}
