//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"golang.org/x/sys/unix"
)

// StartTimeout bounds the start of a daemon, with probing and loading.
const StartTimeout = 15 * time.Second

// ConnectOptions of Connect.
type ConnectOptions struct {
	Socket string // default api.DefaultSocket
	// Command starts a daemon for the socket, in the foreground. Default: this
	// executable with "daemon --ephemeral --socket SOCKET".
	Command func(socket string) *exec.Cmd
}

// Connect returns a client of the daemon on the socket, and starts an ephemeral daemon
// if there is none. Of many concurrent callers one starts it, under a lock, and the
// others wait for it. The error says in one line what is missing and what to run.
func Connect(ctx context.Context, o ConnectOptions) (api.Client, error) {
	i, err := InstanceOf(o.Socket)
	if err != nil {
		return nil, err
	}
	if o.Command == nil {
		o.Command = ephemeralCommand
	}
	var c api.Client
	var lock *InstanceLock
	waiting, cancel := context.WithTimeout(ctx, StartTimeout+LockTimeout)
	defer cancel()
	err = Poll(waiting, func() (bool, error) {
		switch c, err = api.Dial(waiting, i.Socket); {
		case behind(err):
			return false, nil
		case !DaemonAbsent(err):
			return true, err
		case os.Geteuid() != 0:
			return true, fmt.Errorf("no daemon at %s, and only root can start one; run with sudo", i.Socket)
		}
		if lock, err = i.TryLock(); errors.Is(err, ErrLocked) {
			return false, nil // another process starts it
		}
		return true, err
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("start the daemon: %w", err)
	case lock == nil:
		return c, err
	}
	defer lock.Release()
	// Another daemon may have started between our dial and the lock.
	if c, err = api.Dial(ctx, i.Socket); !DaemonAbsent(err) {
		return c, err
	}
	if err := i.start(ctx, o.Command(i.Socket)); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	return api.Dial(ctx, i.Socket)
}

// DaemonAbsent reports an error of a dial: no process listens on the socket.
func DaemonAbsent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// behind reports that the daemon's queue of callers is full, or that it has just
// stopped: another try may be answered.
func behind(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF)
}

func ephemeralCommand(socket string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = "/proc/self/exe"
	}
	return exec.Command(exe, "daemon", "--ephemeral", "--socket", socket)
}

// start starts a daemon that outlives this process: in a POSIX session of its own
// and the root directory, with nothing of ours open but its end of the pipe. It
// waits for the daemon's report. The caller holds the lock.
func (i Instance) start(ctx context.Context, cmd *exec.Cmd) error {
	log, err := OpenFile(i.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(cmd.Environ(), readyFD+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	// This process may run for long: do not leave a zombie. Nor does it get a child that it does not know: where a
	// daemon that failed is still about to exit, a subreaper could not tell it from the command's.
	gone, exited := context.WithCancel(ctx)
	go func() { _ = cmd.Wait(); exited() }()
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	if err = awaitReport(r); err != nil {
		<-gone.Done()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrDied) {
		return fmt.Errorf("%w; see %s", err, i.Log)
	}
	return err
}
