//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// InstanceLock is held by a command or daemon while it starts or stops a daemon of the
// instance.
type InstanceLock struct {
	file *os.File // nil: none could be taken
	tidy func()   // removes what was made for it
}

// Release lets the next one have the lock. It does nothing on a nil InstanceLock.
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

func (i Instance) Acquire(ctx context.Context) (*InstanceLock, error) { return i.await(ctx, i.TryLock) }

// AcquireToLeave waits for the lock as LockToLeave takes it.
func (i Instance) AcquireToLeave(ctx context.Context, alone *PIDFile) (*InstanceLock, error) {
	return i.await(ctx, func() (*InstanceLock, error) { return i.LockToLeave(alone) })
}

func (i Instance) await(ctx context.Context,
	try func() (*InstanceLock, error)) (lock *InstanceLock, err error) {
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

// What the PID file holds besides the daemon's PID.
const (
	ephemeralWord = "ephemeral" // a command started it: it yields to another one
	stoppingWord  = "stopping"  // it is about to exit
)

var ErrRunning = errors.New("a daemon is running")

// PIDFile is held by an instance's daemon for its whole life, because two daemons
// must not read one ring. It does not depend on the socket. It is a record lock:
// the kernel drops it with the process, and names its holder.
type PIDFile struct{ file *os.File }

// Stopping makes the next daemon wait for this one.
func (p *PIDFile) Stopping() error { return note(p.file, stoppingWord) }

// Release lets the next daemon in. The file stays: removing it could remove the
// next daemon's.
func (p *PIDFile) Release() { p.file.Close() }

// HoldPIDFile makes this process the instance's daemon. An ephemeral daemon that
// still runs is stopped: its sessions continue in the kernel, and this daemon
// takes them over. This does not depend on the socket, which a service manager may
// have replaced.
func (i Instance) HoldPIDFile(ctx context.Context, ephemeral bool) (*PIDFile, error) {
	f, err := OpenFile(i.pid, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open PID file: %w", err)
	}
	asked := 0 // the PID of the daemon that was asked to stop
	err = Poll(ctx, func() (bool, error) {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, wholeFile(unix.F_WRLCK))
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return true, err
		}
		pid, err := i.retire(f)
		if pid != asked {
			asked = pid
			return false, err
		}
		return false, nil
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("serve %s: pid %d does not stop: %w", i.Socket, asked, ErrRunning)
	case err == nil:
		word := ""
		if ephemeral {
			word = ephemeralWord
		}
		err = note(f, word)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &PIDFile{f}, nil
}

func wholeFile(kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart}
}

// lockHolder is the PID of the process that holds the lock, 0 if there is none.
func lockHolder(f *os.File) (int, error) {
	l := wholeFile(unix.F_WRLCK)
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, l); err != nil {
		return 0, fmt.Errorf("look for the running daemon: %w", err)
	}
	if l.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(l.Pid), nil
}

// retire stops the daemon that holds the lock, if it is ephemeral, and gives its
// PID; 0 if it has exited.
func (i Instance) retire(f *os.File) (pid int, err error) {
	if pid, err = lockHolder(f); err != nil || pid == 0 {
		return 0, err
	}
	text := make([]byte, 64)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return pid, fmt.Errorf("read PID file: %w", err)
	}
	switch _, word, _ := strings.Cut(string(text[:n]), "\n"); strings.TrimSpace(word) {
	case stoppingWord:
		return pid, nil
	case ephemeralWord:
	default:
		return pid, fmt.Errorf("serve %s: %w as pid %d", i.Socket, ErrRunning, pid)
	}
	return terminate(f, pid)
}

// terminate sends SIGTERM to process pid, if that holds the lock, and gives its PID; 0 if it
// does not: it has exited, and the PID may be another process's.
func terminate(f *os.File, pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, nil // it has just exited
	}
	defer unix.Close(fd)
	// If it holds the lock after the pidfd was opened, it is the process that the
	// pidfd pins.
	if now, err := lockHolder(f); err != nil || now != pid {
		return 0, err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return pid, fmt.Errorf("take over from pid %d: %w", pid, err)
	}
	return pid, nil
}

// note writes the PID file, for users and for retire.
func note(f *os.File, word string) error {
	text := fmt.Sprintln(os.Getpid())
	if word != "" {
		text += word + "\n"
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write PID file: %w", err)
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("write PID file: %w", err)
	}
	return nil
}
