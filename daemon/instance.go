//go:build linux

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"golang.org/x/sys/unix"
)

const (
	bpffs       = "/sys/fs/bpf"
	auditPath   = "/var/log/lineage/audit.jsonl" // of the default instance
	historyPath = "/var/lib/lineage/history.db"  // of the default instance
	lockTimeout = 5 * time.Second
	pollPause   = 10 * time.Millisecond
)

// instance is everything that a socket path names. Instances do not see each
// other's sessions.
type instance struct {
	socket string
	pins   string
	lock   string
	pid    string
	log    string
	audit  string
	// history is in a directory of its own, which nobody else reads.
	history string
}

func instanceOf(socket string) (instance, error) {
	if socket == "" {
		socket = api.DefaultSocket
	}
	socket, err := filepath.Abs(socket)
	if err != nil {
		return instance{}, fmt.Errorf("resolve socket %s: %w", socket, err)
	}
	socket = resolved(socket)
	dir := filepath.Dir(socket)
	i := instance{
		socket: socket, pins: filepath.Join(bpffs, "lineage"),
		lock: filepath.Join(dir, "lock"), pid: filepath.Join(dir, "daemon.pid"), log: filepath.Join(dir, "daemon.log"),
	}
	i.audit, i.history = auditPath, historyPath
	if socket != api.DefaultSocket {
		i.audit = filepath.Join(dir, filepath.Base(auditPath))
		i.history = filepath.Join(socket+".state", filepath.Base(historyPath))
		sum := sha256.Sum256([]byte(socket))
		i.pins += "-" + hex.EncodeToString(sum[:4])
	}
	return i, nil
}

// resolved is the one path that all names of a socket lead to, /var/run/… too:
// lock and PID file are found by any of them, and pins and policy must be those
// of the same instance. The last directory may have to be made yet.
func resolved(socket string) string {
	dir, name := filepath.Split(socket)
	dir = filepath.Clean(dir)
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(to, name)
	}
	if to, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		return filepath.Join(to, filepath.Base(dir), name)
	}
	return socket
}

// prepare makes the socket's directory. Its parent has to be there: without
// /run there is no place that a reboot clears.
func (i instance) prepare() error {
	err := os.Mkdir(filepath.Dir(i.socket), 0o755)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make directory of socket %s: %w", i.socket, err)
	}
	return nil
}

// flock is held by whoever starts or stops a daemon of the instance.
type flock struct{ file *os.File }

func (l *flock) release() {
	if l != nil {
		l.file.Close()
	}
}

var errLocked = errors.New("another command starts or stops the daemon")

// tryLock takes the lock if it is free.
func (i instance) tryLock() (*flock, error) {
	f, err := os.OpenFile(i.lock, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, errLocked
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", i.lock, err)
	}
	return &flock{f}, nil
}

// acquire waits for the lock.
func (i instance) acquire(ctx context.Context) (*flock, error) {
	var lock *flock
	err := poll(ctx, func() (bool, error) {
		l, err := i.tryLock()
		if errors.Is(err, errLocked) {
			return false, nil
		}
		lock = l
		return true, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock %s: %w", i.lock, errLocked)
	}
	return lock, err
}

// poll asks until it is done or ctx is.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// gone waits until the socket is not there any more: it is what a daemon
// removes when it has let go of the kernel.
func (i instance) gone(ctx context.Context) error {
	var before unix.Stat_t
	if unix.Lstat(i.socket, &before) != nil {
		return nil
	}
	return poll(ctx, func() (bool, error) {
		var now unix.Stat_t
		err := unix.Lstat(i.socket, &now)
		return err != nil || now.Ino != before.Ino || now.Dev != before.Dev, nil
	})
}

// removeStale removes a socket that nobody listens on any more. The caller is
// the instance's daemon: nobody else may.
func (i instance) removeStale(ctx context.Context) error {
	info, err := os.Lstat(i.socket)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at socket %s: %w", i.socket, err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("remove stale socket %s: %w: it is a file", i.socket, os.ErrExist)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", i.socket)
	if err == nil {
		c.Close()
		return fmt.Errorf("claim socket %s: another program listens on it", i.socket)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("claim socket %s: %w", i.socket, err)
	}
	if err := os.Remove(i.socket); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}
