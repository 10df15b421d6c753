//go:build linux

package system

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

const BPFFS = "/sys/fs/bpf"

const (
	auditPath   = "/var/log/lineage/audit.jsonl" // of the default instance
	historyPath = "/var/lib/lineage/history.db"  // of the default instance
)

// LockTimeout bounds the wait for the lock, PollPause is between two looks of
// [Poll].
const (
	LockTimeout = 5 * time.Second
	PollPause   = 10 * time.Millisecond
)

// Instance is everything that a socket path names. Instances do not see each
// other's sessions.
type Instance struct {
	Socket string
	Pins   string
	Log    string // of a daemon that a command starts
	Audit  string
	// History is in a directory of its own, which only root reads.
	History string
	// Commands is beside it: the signed commands that were accepted.
	Commands string

	lock string
	pid  string
}

// InstanceOf gives the instance of a socket path; "" is api.DefaultSocket.
func InstanceOf(socket string) (Instance, error) {
	socket, err := filepath.Abs(cmp.Or(socket, api.DefaultSocket))
	if err != nil {
		return Instance{}, fmt.Errorf("resolve socket %s: %w", socket, err)
	}
	socket = resolved(socket)
	dir := filepath.Dir(socket)
	i := Instance{
		Socket: socket, Pins: filepath.Join(BPFFS, "lineage"), Log: filepath.Join(dir, "daemon.log"),
		lock: filepath.Join(dir, "lock"), pid: filepath.Join(dir, "daemon.pid"),
	}
	i.Audit, i.History = auditPath, historyPath
	if socket != api.DefaultSocket {
		i.Audit = filepath.Join(dir, filepath.Base(auditPath))
		i.History = filepath.Join(socket+".state", filepath.Base(historyPath))
		sum := sha256.Sum256([]byte(socket))
		i.Pins += "-" + hex.EncodeToString(sum[:4])
	}
	i.Commands = filepath.Join(filepath.Dir(i.History), "commands.json")
	return i, nil
}

// resolved is the one path that all names of a socket lead to, such as /var/run/…
// and /run/…: all of them find the same lock and PID file, so they must give the
// same pins and policy. The last directory may not exist yet.
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

// Prepare makes the socket's directory. Its parent must exist: a reboot has to
// clear the directory, and only /run is known to be cleared.
func (i Instance) Prepare() error {
	err := os.Mkdir(filepath.Dir(i.Socket), 0o755)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make directory of socket %s: %w", i.Socket, err)
	}
	return nil
}

// Poll calls done until it reports true or an error, or ctx is done.
func Poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.Tick(PollPause)
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
		}
	}
}

// Gone waits until the socket is removed or replaced: the daemon removes it after
// it has released the kernel's side.
func (i Instance) Gone(ctx context.Context) error {
	var before unix.Stat_t
	if unix.Lstat(i.Socket, &before) != nil {
		return nil
	}
	return Poll(ctx, func() (bool, error) {
		var now unix.Stat_t
		err := unix.Lstat(i.Socket, &now)
		return err != nil || now.Ino != before.Ino || now.Dev != before.Dev, nil
	})
}

// removeStale removes a socket that no process listens on. Only the instance's
// daemon may call it.
func (i Instance) removeStale(ctx context.Context) error {
	info, err := os.Lstat(i.Socket)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at socket %s: %w", i.Socket, err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("remove stale socket %s: %w: it is not a socket", i.Socket, os.ErrExist)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", i.Socket)
	if err == nil {
		c.Close()
		return fmt.Errorf("claim socket %s: another program listens on it", i.Socket)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("claim socket %s: %w", i.Socket, err)
	}
	if err := os.Remove(i.Socket); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

type ClaimOptions struct {
	Ephemeral bool
	Started   bool // by a command, which holds the lock
	Passed    bool // a service manager listens on the socket already
}

// Claim takes the instance for this process: the lock, unless the command that
// started it holds that, and the PID file. No other daemon is then on the socket
// or the pins.
func (i Instance) Claim(ctx context.Context, o ClaimOptions) (lock *InstanceLock, alone *PIDFile, err error) {
	if !o.Started {
		// The holder may be starting a daemon, which is taken over below.
		waiting, cancel := context.WithTimeout(ctx, StartTimeout+LockTimeout)
		lock, err = i.Acquire(waiting)
		cancel()
		if err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, LockTimeout)
	defer cancel()
	// The PID file comes first: a daemon that is stopped or behind does not answer
	// on its socket, which is its own all the same.
	if alone, err = i.HoldPIDFile(ctx, o.Ephemeral); err != nil {
		lock.Release()
		return nil, nil, err
	}
	if !o.Passed {
		if err = i.removeStale(ctx); err != nil {
			alone.Release()
			lock.Release()
			return nil, nil, err
		}
	}
	return lock, alone, nil
}
