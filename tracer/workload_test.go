//go:build linux

package tracer_test

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// patience bounds every wait of these tests; reaching it is a failure. It is shorter
// than the lifetime of the test programs: a process that ends in time was ended.
var patience = require.Slowed(20 * time.Second)

// lifetime is how long the test programs live, in seconds.
var lifetime = os.Getenv("LNGTEST_SECONDS")

// until polls, because the kernel side has no descriptor to wait on for a count.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

func receive[T any](t testing.TB, what string, c <-chan T) (value T, ok bool) {
	t.Helper()
	select {
	case value, ok = <-c:
	case <-time.After(patience):
		t.Fatalf("still not after %v: %s", patience, what)
	}
	return value, ok
}

// workload is a shell that has started, with its own exec over. It waits for its first
// line before it does anything, so that it can be made a root before it forks.
type workload struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	pipe *os.File // the read end of its stdout: open after the workload is reaped, too
	out  *bufio.Reader
}

func start(t testing.TB, script string) *workload { return startAs(t, 0, script) }

func startAs(t testing.TB, uid uint32, script string) *workload {
	t.Helper()
	w := &workload{t: t, cmd: exec.Command("/bin/sh", "-c", "echo; read go || exit; "+script)}
	w.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Credential: &syscall.Credential{Uid: uid}}
	var err error
	w.in, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	var stdout *os.File
	w.pipe, stdout, err = os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { w.pipe.Close() })
	w.out = bufio.NewReader(w.pipe)
	w.cmd.Stdout, w.cmd.Stderr = stdout, os.Stderr
	err = w.cmd.Start()
	stdout.Close()
	require.NoError(t, err)
	t.Cleanup(func() { w.cmd.Process.Kill(); w.cmd.Wait() })
	w.line() // Start returns within the exec, before the name is the shell's
	return w
}

// program returns a workload that becomes the named test program.
func program(t testing.TB, args ...string) *workload {
	t.Helper()
	path, err := filepath.Abs("../bin/testdata/lngtest-" + args[0])
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make programs", err)
	}
	return start(t, "exec "+path+" "+strings.Join(args[1:], " "))
}

// reaped starts a script under a subreaper of its own, because the host's PID 1 may wait for orphans late, and returns the
// PID of its shell. The shell waits in the folder of the test programs for its first line.
func reaped(t *testing.T, script string) (*workload, uint32) {
	t.Helper()
	w := start(t, "cd ../bin/testdata; exec ./lngtest-reap /bin/sh -c 'echo root $$; read go; "+script+"'")
	w.goOn()
	return w, parse(t, strings.TrimPrefix(w.until("root"), "root "))
}

func (w *workload) pid() uint32 { return uint32(w.cmd.Process.Pid) }

// reads waits until it sleeps in the system call that reads its next line.
func (w *workload) reads() {
	w.t.Helper()
	until(w.t, "workload that reads", func() bool {
		stat, err := procfs.FS("/proc").Stat(w.pid())
		return err == nil && stat.State == 'S'
	})
}

func (w *workload) goOn() {
	w.t.Helper()
	w.tell("go")
}

func (w *workload) tell(line string) {
	w.t.Helper()
	_, err := io.WriteString(w.in, line+"\n")
	require.NoError(w.t, err)
}

func (w *workload) line() string {
	w.t.Helper()
	w.readFor(patience)
	s, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("read a line of the workload, after %q: %v", s, err)
	}
	return strings.TrimSpace(s)
}

// until reads the workload's lines up to the one with this prefix, and returns it.
func (w *workload) until(prefix string) string {
	w.t.Helper()
	for {
		if line := w.line(); strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

// rest is what the workload prints from here on. Its end is a proof by the kernel,
// independent of what is being tested: no process holds the workload's stdout any more.
func (w *workload) rest() []byte {
	w.t.Helper()
	w.readFor(patience)
	all, err := io.ReadAll(w.out)
	if err != nil {
		w.t.Fatalf("somebody still holds the workload's stdout: %v", err)
	}
	return all
}

// gone waits until no process of the workload lives.
func (w *workload) gone() {
	w.t.Helper()
	w.rest()
}

func (w *workload) held() bool {
	w.t.Helper()
	w.readFor(time.Millisecond)
	_, err := io.Copy(io.Discard, w.out)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatal(err)
	}
	return err != nil
}

func (w *workload) readFor(d time.Duration) {
	w.t.Helper()
	require.NoError(w.t, w.pipe.SetReadDeadline(time.Now().Add(d)))
}

// wait reaps the workload's first process when it has exited, and returns its status.
func (w *workload) wait() syscall.WaitStatus {
	w.t.Helper()
	until(w.t, "the workload's first process exits", func() bool {
		var info unix.Siginfo // Signo stays 0 while it lives
		err := unix.Waitid(unix.P_PID, w.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		require.NoError(w.t, err)
		return info.Signo != 0
	})
	w.cmd.Wait() // an exit code is not an error here
	return w.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// collect reads events until the tracer is closed. Each of them must arrive in time.
func collect(t testing.TB, tr *tracer.Tracer) iter.Seq[tracer.Event] {
	c := make(chan tracer.Event, 1<<16)
	go func() {
		defer close(c)
		var ev tracer.Event
		for {
			if err := tr.Read(&ev); err != nil {
				if !errors.Is(err, os.ErrClosed) {
					t.Error(err)
				}
				return
			}
			copied := ev
			copied.Filename, copied.Argv, copied.Traceparent = slices.Clone(ev.Filename), slices.Clone(ev.Argv), slices.Clone(ev.Traceparent)
			c <- copied
		}
	}()
	return func(yield func(tracer.Event) bool) {
		for {
			if ev, ok := receive(t, "another event", c); !ok || !yield(ev) {
				return
			}
		}
	}
}
