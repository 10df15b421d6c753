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

// start starts a test program, in a cgroup if it has its directory's descriptor, and waits until all is started.
func start(ctx context.Context, cgroup int, name string, args ...string) (*worker, error) {
	w := &worker{cmd: exec.CommandContext(ctx, program(name), args...)}
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
		return nil, fmt.Errorf("%s: %q, %w", name, line, err)
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

// reap waits for all of them that are dead, as the orphans' subreaper: zombies count where tasks are visited.
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
	return w.ask(fmt.Sprintf("%s %d %d", kind, count, pause.Microseconds()), fmt.Sprintf("%s %d", kind, count))
}

// grow makes a crowd fork n children, if there is room on this host.
func (w *worker) grow(n int) error {
	if err := roomFor(n); err != nil {
		return err
	}
	return w.ask(fmt.Sprint(n), fmt.Sprintf("crowd %d", n))
}

// ask tells a program what to do, and waits until it is done.
func (w *worker) ask(what, answer string) error {
	_, err := fmt.Fprintln(w.in, what)
	if err != nil {
		return err
	}
	if line, err := w.line(); err != nil || line != answer {
		return fmt.Errorf("%s: %q, %w", what, line, err)
	}
	return nil
}
