//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A worker is one of the test programs with its descendants: the leader of a process
// group that dies with this process, or at its own deadline.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a test program and waits until it has started all that it should. It
// runs in a cgroup if the descriptor of a cgroup's directory is given.
func start(ctx context.Context, cgroup int, name string, args ...string) (*worker, error) {
	return begin(exec.CommandContext(ctx, program(name), args...), cgroup)
}

// begin is start of a command that runs a test program.
func begin(cmd *exec.Cmd, cgroup int) (*worker, error) {
	w := &worker{cmd: cmd}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if cgroup >= 0 {
		w.cmd.SysProcAttr.UseCgroupFD, w.cmd.SysProcAttr.CgroupFD = true, cgroup
	}
	w.cmd.Cancel = func() error { return unix.Kill(-w.pid(), unix.SIGKILL) }
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := w.line(); err != nil || line != "ready" {
		w.stop()
		return nil, fmt.Errorf("%s: %q, %w", cmd.Path, line, err)
	}
	return w, nil
}

func (w *worker) pid() int { return w.cmd.Process.Pid }

func (w *worker) line() (string, error) {
	s, err := w.out.ReadString('\n')
	return strings.TrimSpace(s), err
}

// gone waits for the end of file on the pipe that all of them hold: proof by the kernel
// that the last one closed it.
func (w *worker) gone() error {
	_, err := io.Copy(io.Discard, w.out)
	return err
}

// reap waits for all of them that are dead. This process is the orphans' subreaper,
// because the host's init may be slow, and zombies count where tasks are visited.
func (w *worker) reap() {
	_ = w.cmd.Wait() // it was killed, or printed what it should
	for {
		if _, err := unix.Wait4(-w.pid(), nil, 0, nil); err != nil && err != unix.EINTR {
			return // no child in that group is left
		}
	}
}

// stop kills the whole group and waits until no process is left.
func (w *worker) stop() {
	_ = unix.Kill(-w.pid(), unix.SIGKILL)
	_ = w.gone()
	w.reap()
}

// do makes a pulse do count operations of a kind, with pauses.
func (w *worker) do(kind string, count int, pause time.Duration) error {
	_, err := fmt.Fprintf(w.in, "%s %d %d\n", kind, count, pause.Microseconds())
	return w.answered(err, fmt.Sprintf("%s %d", kind, count))
}

// grow makes a crowd fork n children.
func (w *worker) grow(n int) error {
	_, err := fmt.Fprintln(w.in, n)
	return w.answered(err, fmt.Sprintf("crowd %d", n))
}

// fill is grow, if there is room on this host.
func (w *worker) fill(n int) error {
	if err := roomFor(n); err != nil {
		return err
	}
	return w.grow(n)
}

// answered waits for that answer, unless there was an error.
func (w *worker) answered(err error, want string) error {
	var line string
	if err == nil {
		line, err = w.line()
	}
	if err == nil && line != want {
		err = fmt.Errorf("answer %q", line)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", want, err)
	}
	return nil
}
