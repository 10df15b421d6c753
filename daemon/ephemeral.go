//go:build linux

package daemon

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
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// startTimeout bounds the start of a daemon: probing and loading included.
const startTimeout = 15 * time.Second

// ConnectOptions of Connect.
type ConnectOptions struct {
	Socket string // default api.DefaultSocket
	// Command starts a daemon for the socket, in the foreground. Default: this
	// executable with "daemon --ephemeral --socket SOCKET".
	Command func(socket string) *exec.Cmd
}

// Connect gives a client of the daemon on the socket and starts an ephemeral
// one if none answers. Of many that do so at once one starts it, under a lock;
// the others wait for it. The error says in one line what is missing and what
// to run.
func Connect(ctx context.Context, o ConnectOptions) (api.Client, error) {
	i, err := instanceOf(o.Socket)
	if err != nil {
		return nil, err
	}
	c, err := api.Dial(ctx, i.socket)
	if !absent(err) && !behind(err) {
		return c, err
	}
	if os.Geteuid() != 0 && absent(err) {
		return nil, fmt.Errorf("no daemon at %s, and only root can start one; run with sudo", i.socket)
	}
	if o.Command == nil {
		o.Command = ephemeralCommand
	}
	if err := i.prepare(); err != nil {
		return nil, err
	}
	var lock *flock
	waiting, cancel := context.WithTimeout(ctx, startTimeout+lockTimeout)
	defer cancel()
	err = poll(waiting, func() (bool, error) {
		switch c, err = api.Dial(waiting, i.socket); {
		case behind(err):
			return false, nil
		case !absent(err):
			return true, err
		}
		lock, err = i.tryLock()
		if errors.Is(err, errLocked) {
			return false, nil // somebody else starts it
		}
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	if c != nil {
		return c, nil
	}
	defer lock.release()
	// Between our dial and the lock another one may have come.
	if c, err = api.Dial(ctx, i.socket); !absent(err) {
		return c, err
	}
	if err := i.start(ctx, o.Command(i.socket)); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	return api.Dial(ctx, i.socket)
}

// absent reports that nobody listens on the socket.
func absent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// behind reports that the daemon has more callers waiting than fit, or has just
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

// start starts a daemon that outlives us: its own POSIX session, the root
// directory, nothing of ours open but its end of the pipe, and waits for its
// word. The caller holds the lock.
func (i instance) start(ctx context.Context, cmd *exec.Cmd) error {
	log, err := os.OpenFile(i.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
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
	// Whoever we are, we may go on for long: do not leave a zombie.
	go func() { _ = cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	switch err := heard(r); {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errSilent):
		return fmt.Errorf("%w; see %s", err, i.log)
	default:
		return err
	}
}

// Unload takes the instance of a socket down: it stops its daemon and removes
// everything that is pinned. With live sessions it refuses unless it is
// forced; their processes go on, in no session.
func Unload(ctx context.Context, socket string, force bool) error {
	i, err := instanceOf(socket)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return tracer.ErrNotRoot
	}
	return thisHost().takeDown(ctx, i, force)
}

func (h host) takeDown(ctx context.Context, i instance, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := api.Dial(ctx, i.socket)
	switch {
	case err == nil:
		defer c.Close()
		if err := c.Stop(ctx, true, force); err != nil {
			return fmt.Errorf("unload: %w", err)
		}
		c.Close()
		if err := i.gone(ctx); err != nil {
			return fmt.Errorf("unload: wait for the daemon: %w", err)
		}
	case !absent(err):
		return fmt.Errorf("unload: %w", err)
	}
	if _, err := os.Stat(i.pins); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := i.prepare(); err != nil {
		return err
	}
	lock, err := i.acquire(ctx)
	if err != nil {
		return fmt.Errorf("unload: %w", err)
	}
	defer lock.release()
	if !force {
		if err := h.noLive(i); err != nil {
			return err
		}
	}
	if err := h.unload(i.pins); err != nil {
		return fmt.Errorf("unload: %w", err)
	}
	return nil
}

// noLive refuses while the pins hold live sessions, whichever version made them.
func (h host) noLive(i instance) error {
	live, err := h.live(i.pins, canaryName)
	if err != nil {
		return fmt.Errorf("unload: %w; to unload nevertheless use --force", err)
	}
	if live > 0 {
		return api.NewError(api.CodeLiveSessions, fmt.Sprintf("unload: %d sessions are live", live), "end them, or use --force")
	}
	return nil
}
