//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// seat is a process at a terminal.
type seat struct {
	*process
	master *os.File
	before unix.Termios // the modes of a fresh terminal
}

// sit starts cmd as a sid leader with its own terminal.
func sit(t *testing.T, cmd *exec.Cmd) *seat {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	p.stdout.grown = make(chan struct{}, 1)
	s := &seat{process: p, master: master}
	s.before = s.modes()
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			p.stdout.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.done
		s.clear()
		slave.Close()
		master.Close() // hangs up on the processes that are left
		<-read
	})
	return s
}

// clear kills what a failed test left at the terminal: the members of its sid, which no
// other process can have joined.
func (s *seat) clear() {
	all, _ := proc.Stats()
	for _, p := range all {
		if int(p.SID) == s.shell() {
			unix.Kill(int(p.PID), unix.SIGKILL)
		}
	}
}

// bash is an interactive shell in which $LNG is `lineage run`.
func bash(t *testing.T, s script) *seat {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	cmd := runCmd(t, s)
	cmd.Path, _ = exec.LookPath("bash")
	cmd.Args = []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}
	cmd.Env = append(cmd.Env, "LNG="+self(t), "PS1=", "PS2=", "HISTFILE=", "TERM=dumb")
	b := sit(t, cmd)
	// Without echo the output has only answers.
	b.types("stty -echo; echo shell is ready")
	b.stdout.expect(t, "\nshell is ready")
	return b
}

func (s *seat) types(line string) { s.press(line + "\n") }

func (s *seat) press(keys string) {
	s.t.Helper()
	_, err := s.master.WriteString(keys)
	require.NoError(s.t, err)
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func (s *seat) front() (pgrp int) {
	s.control(func(fd int) (err error) {
		pgrp, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return pgrp
}

func (s *seat) modes() (m unix.Termios) {
	s.control(func(fd int) error {
		got, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			m = *got
		}
		return err
	})
	return m
}

// control does not call Fd, which would make the master's reads uninterruptible.
func (s *seat) control(f func(fd int) error) {
	s.t.Helper()
	c, err := s.master.SyscallConn()
	require.NoError(s.t, err)
	var failed error
	err = c.Control(func(fd uintptr) { failed = f(int(fd)) })
	if err = errors.Join(err, failed); err != nil {
		s.t.Fatal(err)
	}
}

// inFront waits until the group of pid has the terminal.
func (s *seat) inFront(who string, pid int) {
	s.t.Helper()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("front is %d, output:\n%s", s.front(), s.stdout.String())
		}
	})
	require.Eventually(s.t, fmt.Sprintf("%s %d has the terminal", who, pid), func() bool {
		pgrp, err := unix.Getpgid(pid)
		return err == nil && s.front() == pgrp
	})
}

func (s *seat) shell() int { return s.cmd.Process.Pid }

func parent(t *testing.T, pid int) int {
	t.Helper()
	s, err := proc.Stat(uint32(pid))
	require.NoError(t, err)
	return int(s.Parent)
}

// state is the kernel's letter, 0 if there is no such process.
func state(pid int) byte {
	s, _ := proc.Stat(uint32(pid))
	return s.State
}

func TestCtrlZ(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG sh -c 'echo root ready $$; read x; echo got $x; exec sleep 60'; echo code $?.`)
	root := b.member("root")
	run := parent(t, root)
	for range 5 {
		b.inFront("root", root)
		require.Eventually(t, "root runs", func() bool { return state(root) != 'T' }) // what continues it discards a stop
		b.press(ctrlZ)
		b.stdout.expect(t, "Stopped")
		b.inFront("shell", b.shell())
		if state(root) != 'T' || state(run) != 'T' {
			t.Fatalf("root is %c, run is %c, want both stopped", state(root), state(run))
		}
		b.types("fg")
	}
	b.inFront("root", root)
	b.types("hello")
	b.stdout.expect(t, "got hello")
	b.press(ctrlC)
	b.inFront("shell", b.shell())
	b.types("echo last $?.")
	b.stdout.expect(t, "last 130.")
}

// Stopped, continued in the background, where it asks for the terminal and
// stops, and brought back.
func TestBackAndForth(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG $LNG __lngtest watch root`)
	root := b.member("root")
	run := parent(t, root)
	b.inFront("root", root)
	b.press(ctrlZ)
	b.stdout.expect(t, "Stopped")
	b.types("bg")
	require.Eventually(t, "the job stops at its read", func() bool {
		b.types("jobs -l")
		_, err := b.stdout.find("tty input")
		return err == nil && state(root) == 'T' && state(run) == 'T'
	})
	b.types("fg")
	b.stdout.expect(t, "root got SIGCONT")
	b.inFront("root", root)
	b.types("go")
	b.inFront("shell", b.shell())
	b.types("echo code $?.")
	b.stdout.expect(t, "code 0.")
}

func TestBackground(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG sh -c 'echo root ready $$; exec sleep 60' &`)
	root := b.member("root")
	require.Equal(t, b.front(), b.shell())
	b.types("kill %1; wait %1; echo code $?.")
	b.stdout.expect(t, "code 143.")
	require.Equal(t, state(root), 0)
	require.Equal(t, b.front(), b.shell())
}

// fg of a job that was never stopped sends no SIGCONT.
func TestBackgroundToFront(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG sh -c 'echo root ready $$; read go < "$1"; read x; echo got $x' sh <(sleep 60; echo) &`)
	b.member("root")
	b.types("fg")
	b.stdout.expect(t, "$LNG")
	require.Eventually(t, "run is in front", func() bool { return b.front() != b.shell() })
	b.press(ctrlC)
	b.inFront("shell", b.shell())
	b.types("echo code $?.")
	b.stdout.expect(t, "code 130.")
}

func TestPipeline(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG sh -c 'echo root ready $$; sh -c "echo child ready \$\$; exec sleep 60"; echo "ne"ver' | cat`)
	root := b.member("root")
	b.member("child") // a child stopped between vfork and exec would block sh
	run := parent(t, root)
	require.Eventually(t, "run is in front", func() bool { return b.front() == mustPgrp(run) })
	b.press(ctrlZ)
	b.stdout.expect(t, "Stopped")
	if state(root) != 'T' || state(run) != 'T' {
		t.Fatalf("root is %c, run is %c, want both stopped", state(root), state(run))
	}
	b.types("fg")
	require.Eventually(t, "the job runs", func() bool { return state(root) != 'T' && b.front() == mustPgrp(run) })
	b.press(ctrlC)
	b.inFront("shell", b.shell())
	b.types(`echo code ${PIPESTATUS[0]}.`)
	b.stdout.expect(t, "code 130.")
	require.Eventually(t, "nobody is left", func() bool { return state(root) == 0 })
	if strings.Contains(b.stdout.String(), "never") {
		t.Error("the command went on")
	}
}

func mustPgrp(pid int) int {
	pgrp, _ := unix.Getpgid(pid)
	return pgrp
}

// In a pipeline the part that reads from the terminal keeps it.
func TestPager(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG echo text | sh -c 'read x; echo page $x; read k </dev/tty; echo key $k'`)
	b.stdout.expect(t, "page text")
	b.types("q")
	b.stdout.expect(t, "key q")
	b.types(`$LNG sh -c 'echo root ready $$; read k; echo own $k' | cat`)
	b.inFront("root", b.member("root"))
	b.types("r")
	b.stdout.expect(t, "own r")
	b.inFront("shell", b.shell())
}

// The `&` of a script leaves the terminal to the script.
func TestBackgroundOfScript(t *testing.T) {
	b := bash(t, script{})
	b.types(`sh -c '$LNG sh -c "echo root ready \$\$; exec sleep 60" & read x; echo script got $x; kill $!'`)
	root := b.member("root")
	b.types("line")
	b.stdout.expect(t, "script got line")
	b.inFront("shell", b.shell())
	require.Eventually(t, "root ends", func() bool { return state(root) == 0 })
}

// A shell with its own jobs under run.
func TestShellUnderRun(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG bash --norc --noprofile --noediting -i`)
	b.types(`echo inner "ready" $$`)
	inner, err := strconv.Atoi(b.stdout.expect(t, "inner ready"))
	require.NoError(t, err)
	b.types(`sh -c 'echo job "ready" $$; exec sleep 60'`)
	job := b.member("job")
	b.inFront("job", job)
	if pgrp := mustPgrp(job); pgrp == inner {
		t.Error("the inner shell has no job control")
	}
	b.press(ctrlZ)
	b.stdout.expect(t, "Stopped")
	b.inFront("inner shell", inner)
	b.types("suspend")
	b.inFront("shell", b.shell())
	b.types("fg")
	b.inFront("inner shell", inner)
	b.types("fg")
	b.inFront("job", job)
	// The inner shell dies while its job has the terminal.
	require.NoError(t, unix.Kill(inner, unix.SIGKILL))
	b.inFront("shell", b.shell())
	unix.Kill(job, unix.SIGKILL)
	b.types("echo code $?.")
	b.stdout.expect(t, "code 137.")
}

// A grandchild that holds the terminal does not delay the exit.
func TestGrandchildHoldsTheTerminal(t *testing.T) {
	b := bash(t, script{})
	b.types(`$LNG sh -c 'sleep 60 & echo child "ready" $!; exit 5'; echo code $?.`)
	child := b.member("child")
	b.stdout.expect(t, "code 5.")
	b.inFront("shell", b.shell())
	unix.Kill(child, unix.SIGKILL)
}

// run as the first process of a terminal, with no shell above it.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		name, sh string
		code     int
		restored bool
	}{
		{"killed", "stty raw -echo; kill -KILL $$", 137, true},
		{"failed", "stty raw -echo; exit 1", 1, true},
		{"meant", "stty -echo", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := runCmd(t, script{}, "sh", "-c", c.sh)
			s := sit(t, cmd)
			if got := s.wait(); got.code != c.code {
				t.Errorf("got %+v", got)
			}
			if after := s.modes(); (after == s.before) != c.restored {
				t.Errorf("before %+v\nafter  %+v\nrestored: want %v", s.before, after, c.restored)
			}
		})
	}
}

// Ctrl-Z without a shell that could run fg: the kernel would not stop a command there,
// so it continues under run.
func TestCtrlZWithoutShell(t *testing.T) {
	cmd := runCmd(t, script{}, self(t), "__lngtest", "watch", "root")
	s := sit(t, cmd)
	root := s.member("root")
	s.inFront("root", root)
	s.press(ctrlZ)
	s.stdout.expect(t, "root got SIGCONT")
	s.inFront("root", root)
	s.press(ctrlC)
	s.stdout.expect(t, "root got SIGINT")
	s.types("")
	if got := s.wait(); got.code != 0 {
		t.Errorf("got %+v", got)
	}
}
