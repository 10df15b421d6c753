//go:build linux

package supervise

import (
	"bufio"
	"context"
	"encoding/json"
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

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// runInit is `lineage init` in a test. As PID 1 it mounts the /proc that a
// container has.
func runInit() int {
	var o Options
	if err := json.Unmarshal([]byte(os.Getenv("LNGTEST_INIT")), &o); err != nil {
		return 99
	}
	os.Unsetenv("LNGTEST_INIT")
	if os.Getpid() == 1 {
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = unix.Mount("proc", "/proc", "proc", 0, "")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "lngtest:", err)
			return 99
		}
	}
	o.Args, o.Env = os.Args[1:], os.Environ()
	o.Stdin, o.Stdout, o.Stderr = os.Stdin, os.Stdout, os.Stderr
	return Init(context.Background(), o)
}

// initCmd is `lineage init -- args` as a child of the test.
func initCmd(t *testing.T, pid1 bool, o Options, args ...string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(map[string]any{"Grace": o.Grace, "Report": o.Report, "Quiet": o.Quiet})
	require.NoError(t, err)
	cmd := exec.Command(self(t), args...)
	cmd.Env = append(os.Environ(), "LNGTEST_INIT="+string(b), "LNG="+self(t))
	cmd.WaitDelay = deadline // a survivor holds our pipes
	if pid1 {
		if os.Geteuid() != 0 {
			t.Skip("a PID namespace needs root")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	}
	return cmd
}

// asBoth runs a test with init as PID 1 and as a subreaper.
func asBoth(t *testing.T, f func(t *testing.T, pid1 bool)) {
	t.Run("pid 1", func(t *testing.T) { f(t, true) })
	t.Run("subreaper", func(t *testing.T) { f(t, false) })
}

func graceOf(d time.Duration) *time.Duration { return &d }

func TestInitOptions(t *testing.T) {
	for says, o := range map[string]Options{
		"lineage: init: grace -1s: want 0s to 10m0s\n": {Grace: graceOf(-time.Second)},
		"/nonexistent": {Report: "/nonexistent/r.json"},
	} {
		asBoth(t, func(t *testing.T, pid1 bool) {
			if got := finish(t, initCmd(t, pid1, o, "true")); got.code != 125 || got.stdout != "" || !strings.Contains(got.stderr, says) {
				t.Errorf("%+v, want %q", got, says)
			}
		})
	}
}

// Every process holds our pipes: finish returns when the last one is gone.
func TestInitEndsWhatIsLeft(t *testing.T) {
	for _, c := range []struct {
		name, script string
		grace        time.Duration
		outcomes     string // of the named leftovers, by PID
	}{
		{"nothing", "exit 3", time.Minute, ""},
		{"child", "sleep 60 & exit 3", time.Minute, "term"},
		{"double fork and setsid", "setsid sh -c 'sleep 60 & exit' & wait; exit 3", time.Minute, "term"},
		{"tree", `{ sh -c 'sh -c "echo up; sleep 60; :"; :' & } | { read x; exit 3; }`, time.Minute, "*"},
		{"stopped", "sleep 60 & kill -STOP $!; exit 3", time.Minute, "term"},
		{"deaf", "trap '' TERM; sleep 60 & exit 3", 50 * time.Millisecond, "kill"},
		{"deaf and stopped", "trap '' TERM; sleep 60 & kill -STOP $!; exit 3", 50 * time.Millisecond, "kill"},
		{"grace 0", "sleep 60 & exit 3", 0, "kill"},
		{"forks on SIGTERM", `{ sh -c 'trap "sleep 60 & exit" TERM; echo up; while :; do sleep 0.01; done' & } | { read x; exit 3; }`, 200 * time.Millisecond, "*"},
		{"nested init", `{ LNGTEST_INIT='{"Quiet":true}' $LNG sh -c 'sleep 60 & echo up; sleep 60' & } | { read x; exit 3; }`, time.Minute, "*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asBoth(t, func(t *testing.T, pid1 bool) {
				file := filepath.Join(t.TempDir(), "r.json")
				got := finish(t, initCmd(t, pid1, Options{Grace: &c.grace, Report: file, Quiet: true}, "sh", "-c", c.script))
				if got.code != 3 || strings.Contains(got.stderr, "lineage:") {
					t.Errorf("got %+v", got)
				}
				rep := readReport(t, file)
				if rep.Verdict != api.VerdictClean || !rep.ConfirmedEmpty || rep.Left != 0 || (rep.VerdictWhy == "") != pid1 {
					t.Errorf("receipt %+v", rep)
				}
				var outcomes []string
				for _, p := range rep.Processes {
					outcomes = append(outcomes, string(p.Outcome))
					if p.PID == 0 || p.Comm == "" || !p.Leftover {
						t.Errorf("leftover %+v", p)
					}
				}
				if have := strings.Join(outcomes, " "); have != c.outcomes && (c.outcomes != "*" || have == "") {
					t.Errorf("outcomes %q, want %q", have, c.outcomes)
				}
			})
		})
	}
}

// What init reports: the leftovers, and the scope of its guarantee.
func TestInitTells(t *testing.T) {
	asBoth(t, func(t *testing.T, pid1 bool) {
		// A process in the middle of its exec has no arguments that could name it.
		got := finish(t, initCmd(t, pid1, Options{}, "sh", "-c",
			`sleep 60 & until tr '\0' ' ' </proc/$!/cmdline | grep -qx 'sleep 60 '; do :; done; exit 3`))
		scope, rest, _ := strings.Cut(got.stderr, "lineage: init: 1 process was left over when sh exited; ended, clean: 1 process in ")
		if !regexp.MustCompile(`^[0-9.µm]+s\nlineage:   \d+ .*sleep 60.*  SIGTERM\n$`).MatchString(rest) {
			t.Errorf("stderr %q", got.stderr)
		}
		want := "lineage: init: not PID 1, so a subreaper: what descends from sh is ended; what another daemon started for it is unknown\n"
		if pid1 {
			want = ""
		}
		require.Equal(t, scope, want)
	})
}

// A process that is not a descendant survives, even with the same group and name.
func TestInitEndsNoStranger(t *testing.T) {
	stranger := exec.Command("sleep", "60")
	require.NoError(t, stranger.Start())
	defer func() {
		stranger.Process.Kill()
		stranger.Wait()
	}()
	got := finish(t, initCmd(t, false, Options{Grace: graceOf(0), Quiet: true}, "sh", "-c", "sleep 60 & exit 3"))
	require.Equal(t, got.code, 3)
	require.Eventually(t, "the stranger sleeps", func() bool { return state(stranger.Process.Pid) == 'S' })
}

// Children that init inherited from the process that exec'd it are not CMD's. The child has its
// name when it sleeps.
func TestInitRefusesToAnswerForOthers(t *testing.T) {
	cmd := initCmd(t, false, Options{}, "lngtest")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c",
		`sleep 60 & until read s </proc/$!/stat && [ "${s#*(sleep) S}" != "$s" ]; do :; done; echo $!; exec $LNG true`}
	cmd.WaitDelay = time.Second
	p := start(t, cmd)
	child, err := strconv.Atoi(p.stdout.expect(t, ""))
	require.NoError(t, err)
	defer unix.Kill(child, unix.SIGKILL)
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(p.stderr.String(), fmt.Sprintf("it has a child already, %d (sleep)", child)) {
		t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
	}
	require.Equal(t, state(child), 'S')
}

func TestInitForwards(t *testing.T) {
	asBoth(t, func(t *testing.T, pid1 bool) {
		cmd := initCmd(t, pid1, Options{Quiet: true}, self(t), "__lngtest", "watch", "root")
		p, in := piped(t, cmd)
		p.member("root")
		for _, s := range append(forwardedByInit, forwarded...) {
			p.signal(s.(unix.Signal))
			p.stdout.expect(t, "root got "+signalName(s.(unix.Signal)))
		}
		in.Close()
		if got := p.wait(); got.code != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// A SIGTERM while leftovers have their grace ends it.
func TestInitHurries(t *testing.T) {
	asBoth(t, func(t *testing.T, pid1 bool) {
		file := filepath.Join(t.TempDir(), "r.json")
		cmd := initCmd(t, pid1, Options{Grace: graceOf(9 * time.Minute), Report: file, Quiet: true},
			"sh", "-c", `(trap "echo asked" TERM; echo up; while :; do sleep 0.01; done) & read x`)
		p, in := piped(t, cmd)
		p.stdout.expect(t, "up")
		in.Close()
		p.stdout.expect(t, "asked")
		p.signal(unix.SIGTERM)
		p.wait()
		rep := readReport(t, file)
		if rep.Verdict != api.VerdictClean || rep.Killed == 0 {
			t.Errorf("receipt %+v", rep)
		}
	})
}

// CMD has 100 children that it has not waited for, and 500 orphans die beside
// them: the orphans are reaped, the children and their codes are CMD's.
func TestInitStealsNoExitCode(t *testing.T) {
	asBoth(t, func(t *testing.T, pid1 bool) {
		cmd := initCmd(t, pid1, Options{Quiet: true}, self(t), "__lngtest", "codes", "100")
		p, in := piped(t, cmd)
		p.stdout.expect(t, "codes ready")
		require.Eventually(t, "init has one child", func() bool { return len(strings.Fields(childrenOf(cmd.Process.Pid))) == 1 })
		root, _ := strconv.Atoi(childrenOf(cmd.Process.Pid))
		require.Equal(t, len(strings.Fields(childrenOf(root))), 100)
		in.Close()
		if got := p.wait(); got.code != 42 {
			t.Errorf("got %+v", got)
		}
	})
}

// codes starts n children that exit with their number, and 500 orphans; when its input
// ends, it waits for each child, and exits with 42 if all codes are right.
func codes(number string) int {
	n, err := strconv.Atoi(number)
	if err != nil {
		return 99
	}
	pids := make([]int, n)
	for i := range pids {
		pids[i], err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("exit %d", i)}, nil)
		if err != nil {
			return 99
		}
	}
	orphans := exec.Command("sh", "-c", `i=0; while [ $i -lt 100 ]; do (: & : & : & : & : &); i=$((i+1)); done`)
	if err := orphans.Run(); err != nil {
		return 99
	}
	for _, pid := range pids {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			return 98
		}
	}
	fmt.Println("codes ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for i, pid := range pids {
		var ws unix.WaitStatus
		if got, err := unix.Wait4(pid, &ws, 0, nil); err != nil || got != pid || ws.ExitStatus() != i {
			fmt.Println(pid, got, err, ws)
			return 97
		}
	}
	return 42
}

// signalName names realtime signals too.
func signalName(sig unix.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d.", int(sig))
}

func TestCalledOffBefore(t *testing.T) {
	c := &caught{to: make(chan os.Signal, 4)}
	c.to <- unix.SIGUSR1
	c.to <- unix.SIGWINCH
	if sig := calledOff(c); sig != 0 || len(c.to) != 2 || <-c.to != unix.SIGUSR1 {
		t.Errorf("called off by %v, %d left", sig, len(c.to))
	}
	c.to <- unix.SIGTERM
	require.Equal(t, calledOff(c), unix.SIGTERM)
}

// At a terminal the command is in front, as under run: Ctrl-C is its own.
func TestInitAtATerminal(t *testing.T) {
	s := sit(t, initCmd(t, false, Options{Quiet: true}, "sh", "-c",
		`trap 'echo interrupted; exit 5' INT; echo root ready $$; while :; do sleep 0.01; done`))
	root := s.member("root")
	require.Equal(t, s.front(), root)
	s.press(ctrlC)
	s.stdout.expect(t, "interrupted")
	if got := s.wait(); got.code != 5 {
		t.Errorf("got %+v", got)
	}
}
