//go:build linux

package brokers

import (
	"encoding/json"
	"fmt"
	"io"
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
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// runc alone makes the processes that an engine makes, so these tests also run on each kernel of internal/vm/matrix.

const runcRules = `mode: enforce
breaker: {ends_per_minute: 10000}
containers:
  - {name: lngtest-runc, match: {runtime: containerd, env: LNGTEST=runc}, grace: 100ms}
`

// box is a container of runc's. In place of an engine's shim it has a subreaper in its bundle, with a shell that runs runc.
type box struct {
	*stage.Instance
	group      string
	shim       *stage.Process
	shell      io.WriteCloser
	main       *stage.Marker // held by all processes of the container itself
	others     []*stage.Marker
	bystanders []*stage.Bystander
	execs      int
}

var boxID, innerID = strings.Repeat("c1", 32), strings.Repeat("c2", 32)

// inner is a container within the container, with a command that was put into it.
const inner = `{
	runc --root /run/runc run --no-pivot -d -b $DIR/$INNER $INNER
	runc --root /run/runc exec -d $INNER sleep 7020
} </dev/null >>$DIR/runc.log 2>&1
`

// newBox starts a container. Its PID 1 counts the signals that it gets, and has a child and an orphan that do; it begins with script.
func newBox(i *stage.Instance, script string) *box {
	i.T.Helper()
	stage.Need(i.T, "test-brokers", "runc")
	b := &box{Instance: i, group: "/" + filepath.Base(stage.NewCgroup(i.T).Dir), main: stage.NewMarker(i.T, i.Dir)}
	program, start := i.Copy(stage.Program("bystander")), ""
	inputs := []string{filepath.Join(i.Dir, "child"), filepath.Join(i.Dir, "orphan")}
	for n, input := range inputs {
		require.NoError(i.T, unix.Mkfifo(input, 0o600))
		b.others = append(b.others, stage.NewMarker(i.T, i.Dir))
		command := fmt.Sprintf("LNGTEST_SECONDS=3600 LNGTEST_MARKER=%s %s %s <%s &", b.others[n].Path, program, filepath.Base(input), input)
		if n > 0 {
			command = "(setsid sh -c '" + strings.TrimSuffix(command, "&") + "' &)"
		}
		start += command + "\n"
	}
	b.bundle(innerID, "sleep 7012 & (sleep 7013 &); sleep 7014")
	b.bundle(boxID, "trap 'echo touched >&9' HUP INT QUIT TERM USR1 USR2\nexec 9>"+b.main.Path+"\n"+script+"\n"+start+"echo up >&9\nwhile :; do wait; sleep 1; done")

	shim := exec.Command(stage.Program("reap"), "/bin/sh") // reads commands
	shim.Dir, shim.Env = filepath.Join(i.Dir, boxID), append(os.Environ(), "LNGTEST_SECONDS=3600")
	var err error
	b.shell, err = shim.StdinPipe()
	require.NoError(i.T, err)
	b.shim = stage.Start(i.T, shim)
	i.T.Cleanup(func() {
		b.runc("delete", "-f", boxID)
		b.shell.Close()
		b.shim.Wait()
		if text, err := os.ReadFile(filepath.Join(i.Dir, "runc.log")); i.T.Failed() && err == nil {
			i.T.Logf("runc: %s", text)
		}
	})
	b.runc("run", "--no-pivot", "-d", "--pid-file", filepath.Join(i.Dir, boxID, "init.pid"), boxID) // a guest's root cannot be pivoted
	b.main.Line("up", 1)
	for n, input := range inputs {
		b.bystanders = append(b.bystanders, stage.StartBystander(b.others[n], exec.Command("sh", "-c", `exec cat >"$0"`, input)))
	}
	return b
}

// bundle makes the bundle of a container with this host's programs and the directory of the test.
func (b *box) bundle(id, script string) {
	b.T.Helper()
	type object = map[string]any
	mounts := []object{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
		{"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
		{"destination": "/sys/fs/cgroup", "type": "bind", "source": "/sys/fs/cgroup", "options": []string{"rbind"}},
		{"destination": b.Dir, "type": "bind", "source": b.Dir, "options": []string{"rbind"}},
	}
	for _, path := range []string{"/bin", "/lib", "/lib64", "/sbin", "/usr"} {
		if _, err := os.Stat(path); err == nil {
			mounts = append(mounts, object{"destination": path, "type": "bind", "source": path, "options": []string{"rbind", "ro"}})
		}
	}
	may := strings.Fields("CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL CAP_MKNOD CAP_NET_ADMIN CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_ADMIN CAP_SYS_CHROOT CAP_SYS_PTRACE")
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2",
		"root":       object{"path": "rootfs"},
		"mounts":     mounts,
		"process": object{
			"args": []string{"sh", "-c", script}, "cwd": "/", "user": object{"uid": 0, "gid": 0},
			"env":          []string{"PATH=/bin:/usr/bin:/usr/sbin", "LNGTEST=runc", "DIR=" + b.Dir, "INNER=" + innerID},
			"capabilities": object{"bounding": may, "effective": may, "permitted": may},
		},
		"linux": object{"cgroupsPath": b.group + "/" + id, "namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}}},
	})
	dir := filepath.Join(b.Dir, id)
	require.NoError(b.T, err, os.MkdirAll(filepath.Join(dir, "rootfs"), 0o755), os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
}

func (b *box) runc(args ...string) {
	b.T.Helper()
	end := "\n"
	if args[0] == "exec" && !slices.Contains(args, "-d") {
		end = " &\n"
	}
	line := "runc --root " + b.Dir + "/runc"
	for _, arg := range args {
		line += " '" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	_, err := io.WriteString(b.shell, line+" </dev/null >>"+b.Dir+"/runc.log 2>&1"+end)
	require.NoError(b.T, err)
}

// exec runs a command in the container and returns its PID. With the flag -d runc does not stay with it.
func (b *box) exec(flags []string, command ...string) (pid int) {
	b.T.Helper()
	b.execs++
	file := filepath.Join(b.Dir, fmt.Sprint("exec-", b.execs))
	b.runc(slices.Concat([]string{"exec", "--pid-file", file}, flags, []string{boxID}, command)...)
	b.Until("PID of a command", func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			pid = stage.Number(b.T, string(text))
		}
		return err == nil
	})
	return pid
}

// has returns the command line of a process, and whether it is in the container or runc's.
func (b *box) has(pid uint32) (command string, ours bool) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	command = strings.ReplaceAll(string(text), "\x00", " ")
	return command, strings.Contains(string(groups), b.group+"/") || strings.Contains(command, b.Dir)
}

// session waits until a command's session has been judged.
func (b *box) session(pid int) (id string) {
	b.T.Helper()
	b.Until("session of the command", func() bool {
		for _, s := range stage.Query[api.Sessions](b.Instance, "ls").Items {
			if s.Root != nil && s.Root.PID == pid && s.ContainerRule == "lngtest-runc" {
				id = s.ID
			}
		}
		return id != ""
	})
	return id
}

// untouched fails if a process of the container itself is dead or got a signal.
func (b *box) untouched() {
	b.T.Helper()
	if alive := b.main.Drain(); !alive || len(b.main.Lines("touched")) > 0 {
		b.T.Errorf("PID 1: alive %v: %q", alive, b.main.Text)
	}
	for _, o := range b.bystanders {
		if err := o.Untouched(); err != nil {
			b.T.Error(err)
		}
	}
}

// TestRuncJoins: the kernel side takes a command of runc exec, also one within the container, for put into a container, and nothing
// else; if it looks for main processes too, that of the container, in whose session the rest is.
func TestRuncJoins(t *testing.T) {
	const first = "sh -c trap 'echo touched >&9' HUP INT QUIT TERM USR1 USR2"
	t.Run("commands", func(t *testing.T) { testRuncJoins(t, false, "sleep 7001", "sleep 7002", "sleep 7004", "sleep 7020") })
	t.Run("main processes", func(t *testing.T) { testRuncJoins(t, true, first, "sleep 7001", "sleep 7002", "sleep 7004") })
}

func testRuncJoins(t *testing.T, mains bool, want ...string) {
	const dir = "/sys/fs/bpf/lngtest-joins"
	i := stage.New(t)
	tr, err := tracer.Open(tracer.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close(), tracer.Unload(dir)) })
	tr.SetJoins(true, mains)
	b := newBox(i, inner+"unshare -p -f sh -c 'sleep 7010 & sleep 7011' &\n(sleep 7015 &)\n")
	b.exec([]string{"-d"}, "sleep", "7001")
	b.exec(nil, "sh", "-c", "sleep 7003 & exec sleep 7002")
	b.exec([]string{"-d"}, "sleep", "7004") // by now all else has begun
	var roots []string
	for deadline := time.Now().Add(stage.Patience); !slices.Equal(roots, want); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("roots of sessions: %q", roots)
		}
		all, err := tr.Sessions()
		require.NoError(t, err)
		roots = nil
		for _, s := range all {
			switch command, ours := b.has(s.Root.PID); {
			case ours && s.Joined:
				command, _, _ = strings.Cut(command, "\n")
				roots = append(roots, strings.TrimSpace(command))
			case ours, strings.HasPrefix(s.Name, "runc"): // which is gone; the rest are commands of others on this host
				t.Errorf("%+v", s)
			}
		}
		slices.Sort(roots)
	}
	b.untouched()
}

// TestRuncExec: an engine that does not tell who asked. What a command leaves ends with it; a command outlives its runc exec.
func TestRuncExec(t *testing.T) {
	i := stage.New(t)
	left := stage.NewMarker(t, i.Dir)
	i.Daemon("--policy", i.Policy(runcRules))
	// The kernel side takes its second child for put in: it is not PID 1 of the namespace within.
	b := newBox(i, "unshare -p sh -c 'sleep 7010 & sleep 7011' &\n")
	up := 0
	for _, tree := range leftovers {
		for _, killed := range []bool{false, true} {
			script := "exec 9>" + left.Path + "; echo up >&9; " + tree.script + "\n"
			if killed {
				script += "sleep 99"
			}
			pid := b.exec(nil, "sh", "-c", script)
			up++
			left.Line("up", up)
			if killed {
				id := b.session(pid)
				require.NoError(t, unix.Kill(stage.Number(t, stage.ProcStatus(pid, "PPid")), unix.SIGKILL))
				i.Until("command without its runc", func() bool { return stage.ProcStatus(pid, "PPid") == fmt.Sprint(b.shim.Process.Pid) })
				i.End(id)
			}
			left.Wait("end of "+tree.name, func(alive bool) bool { return !alive })
		}
	}
	b.untouched()
	i.Until("end of all sessions", func() bool { return len(stage.Query[api.Sessions](i, "ls").Items) == 0 })
	for reason, want := range map[string]int{"root_exit": len(leftovers), "end": len(leftovers)} {
		i.Until("receipts", func() bool {
			n := 0
			for _, s := range stage.Query[api.Sessions](i, "history", "--limit", "0").Items {
				if s.EndReason == reason && s.ContainerRule == "lngtest-runc" && s.Container != nil && s.Container.ID == boxID && s.Verdict == "clean" {
					n++
				}
			}
			return n == want
		})
	}
}

// TestRuncLeft: what a command that exits at once has left in a PID namespace of its own, or outside of the container's cgroup, ends with it, also if
// the daemon is killed meanwhile.
func TestRuncLeft(t *testing.T) {
	for _, level := range []string{"4", "2"} {
		t.Run(level, func(t *testing.T) { testRuncLeft(t, "--level", level) })
	}
}

func testRuncLeft(t *testing.T, flags ...string) {
	i := stage.New(t)
	left := stage.NewMarker(t, i.Dir)
	require.NoError(t, os.Chmod(left.Path, 0o666), os.Chmod(i.Dir, 0o755))
	flags = append(flags, "--policy", i.Policy(runcRules))
	daemon, b, up := i.Daemon(flags...), newBox(i, ""), 0
	for round := range tracertest.FromEnv(t, "LNGTEST_ROUNDS", 1) {
		for n, way := range []struct {
			user, script string
		}{
			{"0", "exec unshare -p sh -c 'setsid sleep 120 &'"},
			{"1000", "exec unshare -U -p sh -c 'setsid sleep 120 &'"},
			{"0", "for g in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do echo $$ >$g; done 2>/dev/null; (setsid sleep 120 &)"},
		} {
			b.runc("exec", "-u", way.user, boxID, "sh", "-c", "exec 9>>"+left.Path+"; echo up >&9; "+way.script)
			up++
			left.Line("up", up)
			if (round+n)%2 == 0 {
				require.NoError(t, daemon.Process.Kill())
				daemon.Wait()
				daemon = i.Daemon(flags...)
			}
			left.Wait("end of "+way.script+" as "+way.user, func(alive bool) bool { return !alive })
		}
	}
	b.untouched()
}
