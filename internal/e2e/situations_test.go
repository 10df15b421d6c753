//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Situations that users reported.

// An agent crashes after starting a development server, such as "npm run dev" starts, that
// ignores SIGTERM: when run returns, within a second after the grace, the port can be
// bound again.
func TestCrashFreesThePort(t *testing.T) {
	grace := require.Slowed(time.Second)
	for _, server := range []string{"node", "port"} {
		t.Run(server, func(t *testing.T) {
			i := stage.NewDaemon(t)
			m := stage.NewMarker(t, i.Dir)
			start := stage.Program("port") + " 10000"
			if server == "node" {
				start = devServer(t, i.Dir)
			}
			file := filepath.Join(i.Dir, "report.json")
			// What an agent's shell tool does with a command that should stay.
			script := "(" + start + " >server.log 2>&1 &); exec 9>" + m.Path + "; echo root $$ >&9; sleep 60"
			run := i.Start([]string{"run", "--grace", grace.String(), "--report", file, "--", "sh", "-c", script}, m.Env())
			port := stage.Number(t, m.Line("port", 1)[0])
			client, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			require.NoError(t, err)
			defer client.Close()
			i.Agrees("the port's holder", func() error {
				p := i.Must("why", fmt.Sprintf(":%d", port))
				if !strings.Contains(p.Out.String(), "session ") {
					return fmt.Errorf("%v", p)
				}
				return nil
			})

			require.NoError(t, unix.Kill(stage.Number(t, m.Line("root", 1)[0]), unix.SIGKILL))
			crashed := time.Now()
			run.Wait()
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			took := time.Since(crashed)
			if err != nil {
				t.Errorf("run has returned, and %v", err)
			} else {
				l.Close()
			}
			m.MustBeGone()
			if run.Code() != 128+int(unix.SIGKILL) {
				t.Errorf("%v", run)
			}
			r := stage.Report(t, file)
			// Without the time for which run and this test waited for a CPU.
			if limit := grace + require.Slowed(time.Second); r.Ended == nil || r.Ended.Sub(crashed) > limit {
				t.Errorf("the session ended at %v, want %v after %v at most", r.Ended, limit, crashed)
			}
			of := func(p api.Port) bool { return p.Port == port }
			if r.Verdict != "clean" || !slices.ContainsFunc(r.PortsFreed, of) {
				t.Errorf("verdict %q, freed %+v", r.Verdict, r.PortsFreed)
			}
			t.Logf("figure: port free %v after the crash, grace %v", took.Round(time.Millisecond), grace)
		})
	}
}

// devServer makes a server and what runs it in dir, as npm does: a node that waits for a shell.
func devServer(t *testing.T, dir string) string {
	t.Helper()
	stage.Need(t, "deps", "node")
	for name, text := range map[string]string{
		"run.js": `require("node:child_process").spawnSync("sh", ["-c", "node lngtest-dev.js; exit"], {cwd: __dirname, stdio: "inherit"})`,
		"lngtest-dev.js": `const fs = require("node:fs"), net = require("node:net");
const marker = fs.openSync(process.env.LNGTEST_MARKER, "w");
const server = net.createServer(() => {}).listen(0, "127.0.0.1", () => fs.writeSync(marker, "port " + server.address().port + "\n"));
process.on("SIGTERM", () => {});
setTimeout(() => process.exit(1), 60000);
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return "node " + filepath.Join(dir, "run.js")
}

// The root is killed by SIGKILL and leaves a daemonised service with a pool of workers
// under PID 1. Only our records lead back to the root.
func TestServiceUnderInit(t *testing.T) {
	const workers = 8
	start := func(t *testing.T, flags ...string) (*stage.Instance, *stage.Marker, *stage.Process, map[int]int) {
		i := stage.NewDaemon(t)
		m := stage.NewMarker(t, i.Dir)
		run := i.Run(m, append([]string{"--name", "pool", "--subreaper=false"}, flags...), "pool", fmt.Sprint(workers))
		m.Ready()
		service, pids := m.Line("service", 1), m.Members(workers)
		if parent := stage.ProcStatus(stage.Number(t, service[0]), "PPid"); parent == service[1] || parent == fmt.Sprint(run.Process.Pid) {
			t.Fatalf("the service's parent is %s", parent)
		}
		return i, m, run, pids
	}
	kill := func(t *testing.T, pid int) {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}

	t.Run("ended with the root", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "report.json")
		i, m, run, pids := start(t, "--grace", "200ms", "--report", file)
		kill(t, i.Session("pool").Root.PID)
		run.Wait()
		m.MustBeGone()
		r := stage.Report(t, file)
		if r.Verdict != "clean" || !r.ConfirmedEmpty || r.EndReason != "root_exit" {
			t.Errorf("%+v", r)
		}
		for pid := range pids {
			if !slices.ContainsFunc(r.Processes, func(p api.Outcome) bool { return p.PID == pid && p.Leftover }) {
				t.Errorf("worker %d is not named as a leftover", pid)
			}
		}
	})

	t.Run("run killed with it", func(t *testing.T) {
		i, m, run, _ := start(t, "--grace", "0s")
		root := i.Session("pool").Root.PID
		kill(t, run.Process.Pid)
		_ = unix.Kill(root, unix.SIGKILL) // the session's end may have come first
		m.Gone()
		run.Wait()
	})

	t.Run("left, found and ended", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "report.json")
		i, m, run, pids := start(t, "--on-exit", "report", "--report", file)
		kill(t, i.Session("pool").Root.PID)
		run.Wait()
		if r := stage.Report(t, file); r.Verdict != "left" || r.Left != workers+1 || !strings.Contains(run.Err.String(), "nothing was ended") {
			t.Errorf("verdict %q, %d left: %v", r.Verdict, r.Left, run)
		}
		i.Agrees("leftovers", func() error {
			if s := i.Session("pool"); s.Live != workers+1 || s.Leftovers != workers+1 {
				return fmt.Errorf("%d live, %d leftovers", s.Live, s.Leftovers)
			}
			return nil
		})
		for pid := range pids {
			why := stage.Query[api.Why](i, "why", fmt.Sprint(pid))
			if why.Session == nil || why.Session.Name != "pool" || len(why.Edges) != 4 {
				t.Errorf("%d: session %+v, %d edges", pid, why.Session, len(why.Edges))
			}
		}
		i.End("--grace", "200ms", "pool")
		m.MustBeGone()
	})
}

// A command prints its JSON and exits; its background sync holds a lock, takes two
// seconds to finish, and writes another line to the same output. When run returns, all
// of it is over, and the lock was named.
func TestBackgroundSync(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	file, lock := filepath.Join(i.Dir, "report.json"), filepath.Join(i.Dir, "sync.lock")
	const sync = `trap "sleep 2; echo late; exit" TERM; echo there >in; echo ready >&9; while :; do sleep 1 & wait; done`
	script := "exec 9>" + m.Path + `; mkfifo in
(setsid flock sync.lock sh -c '` + sync + `' &)
read there <in
echo '{"ok": true}'`
	run := i.Start([]string{"run", "--grace", "10s", "--report", file, "--", "sh", "-c", script}, nil).Wait()
	m.MustBeGone()
	// The late line came before run returned: a reader of the whole output has it.
	if run.Held || run.Code() != 0 || run.Out.String() != "{\"ok\": true}\nlate\n" {
		t.Errorf("output held after the end: %v; %v", run.Held, run)
	}
	require.Contains(t, run.Err.String(), "released flock (write) "+lock)
	r := stage.Report(t, file)
	of := func(l api.Lock) bool { return l.Path == lock && l.Type == "flock" }
	if r.Verdict != "clean" || !slices.ContainsFunc(r.LocksReleased, of) || len(r.LocksHeld)+len(r.OutputHeldBy) != 0 {
		t.Errorf("verdict %q, released %+v, held %+v, output %+v", r.Verdict, r.LocksReleased, r.LocksHeld, r.OutputHeldBy)
	}
	f, err := os.Open(lock)
	require.NoError(t, err)
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the lock is held: %v", err)
	}
}

// A lock that the caller has taken and its command inherits is the caller's: no
// receipt calls it still held.
func TestInheritedLock(t *testing.T) {
	i := stage.NewDaemon(t)
	lock, err := os.Create(filepath.Join(i.Dir, "caller.lock"))
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	m, file := stage.NewMarker(t, i.Dir), filepath.Join(i.Dir, "report.json")
	// Its own lock shows that locks were read before the end.
	script := "exec 9>" + m.Path + `; exec 8>own.lock; flock 8; mkfifo in
(setsid sh -c 'trap "sleep 1; exit" TERM; echo there >in; while :; do sleep 1 & wait; done' &)
read there <in; readlink /proc/self/fd/3`
	cmd := i.Command([]string{"run", "--grace", "5s", "--report", file, "--", "sh", "-c", script}, nil)
	cmd.ExtraFiles = []*os.File{lock}
	run := stage.Start(t, cmd).Wait()
	m.MustBeGone()
	require.Equal(t, strings.TrimSpace(run.Out.String()), lock.Name())
	r := stage.Report(t, file)
	if len(r.LocksReleased) != 1 || filepath.Base(r.LocksReleased[0].Path) != "own.lock" || len(r.LocksHeld) != 0 {
		t.Errorf("released %+v, held %+v; %s", r.LocksReleased, r.LocksHeld, run.Err.String())
	}
}

// A run that its shell has suspended is continued when its session ends, so that the
// shell notices it.
func TestSuspendedRun(t *testing.T) {
	i := stage.NewDaemon(t)
	// We are the shell: in the same sid, in another group.
	cmd := i.Command([]string{"run", "--name", "suspended", "--", "sleep", "60"}, nil)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	run := stage.Start(t, cmd)
	i.Until("session", func() bool { return strings.Contains(i.Must("ls", "-o", "json").Out.String(), "suspended") })
	root := i.Session("suspended").Root.PID
	state := func() string { return stage.ProcStatus(run.Process.Pid, "State") }
	i.Until("command", func() bool { return stage.ProcStatus(root, "Name") == "sleep" })
	require.NoError(t, unix.Kill(root, unix.SIGTSTP))
	i.Until("suspended run", func() bool { return strings.HasPrefix(state(), "T") })
	i.Must("end", "suspended", "--yes")
	i.Until("exit of the suspended run", run.Exited)
	if run.Code() != 143 {
		t.Errorf("exit code %d: %s", run.Code(), run.Err.String())
	}
}
