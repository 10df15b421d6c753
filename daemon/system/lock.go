//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// InstanceLock is held by a command or daemon while it starts or stops a daemon of the
// instance.
type InstanceLock struct {
	file *os.File // nil: none could be taken
	tidy func()   // removes what was made for it
}

// Release lets the next one have the lock. It does nothing on a nil Lock.
func (l *InstanceLock) Release() {
	if l == nil {
		return
	}
	if l.tidy != nil {
		l.tidy()
	}
	l.file.Close()
}

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("another command starts or stops the daemon")

// TryLock takes the lock if it is free. It makes the socket's directory if that is
// missing.
func (i Instance) TryLock() (*InstanceLock, error) {
	if err := i.Prepare(); err != nil {
		return nil, err
	}
	f, err := OpenFile(i.lock, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrLocked // it was removed right now: see LockToLeave
	}
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return i.take(f)
}

// take locks the open lock file, and closes it if that fails.
func (i Instance) take(f *os.File) (*InstanceLock, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !named(f, i.lock) {
		err = unix.EWOULDBLOCK // its holder removed it: the next one is another file
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, ErrLocked
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", i.lock, err)
	}
	return &InstanceLock{file: f}, nil
}

// LockToLeave is TryLock for a daemon that takes the kernel's side down. If the
// directory was removed meanwhile it is there again for as long as the lock is held,
// so that no other daemon begins on pins that are about to go; where its parent is gone
// too, none can. [ErrRunning]: another daemon has the instance by now, and its pins.
func (i Instance) LockToLeave(alone *PIDFile) (*InstanceLock, error) {
	dir := filepath.Dir(i.Socket)
	_, gone := os.Stat(dir)
	l, err := i.TryLock()
	if errors.Is(err, os.ErrNotExist) {
		return &InstanceLock{}, nil
	}
	if err != nil {
		return nil, err
	}
	if gone != nil {
		l.tidy = func() {
			os.Remove(i.lock)
			os.Remove(dir)
		}
	}
	if _, err := os.Stat(i.pid); err == nil && !named(alone.file, i.pid) {
		l.Release()
		return nil, fmt.Errorf("leave %s: %w", i.Socket, ErrRunning)
	}
	return l, nil
}

// named reports whether a path leads to an open file.
func named(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(is, now)
}

// Acquire waits for the lock.
func (i Instance) Acquire(ctx context.Context) (*InstanceLock, error) { return i.await(ctx, i.TryLock) }

// AcquireToLeave waits for the lock as LockToLeave takes it.
func (i Instance) AcquireToLeave(ctx context.Context, alone *PIDFile) (*InstanceLock, error) {
	return i.await(ctx, func() (*InstanceLock, error) { return i.LockToLeave(alone) })
}

func (i Instance) await(ctx context.Context, try func() (*InstanceLock, error)) (lock *InstanceLock, err error) {
	err = Poll(ctx, func() (bool, error) {
		l, err := try()
		if errors.Is(err, ErrLocked) {
			return false, nil
		}
		lock = l
		return true, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock %s: %w", i.lock, ErrLocked)
	}
	return lock, err
}
