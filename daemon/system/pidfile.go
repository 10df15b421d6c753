//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What the PID file holds besides the daemon's PID.
const (
	ephemeralWord = "ephemeral" // a command started it: it yields to another one
	stoppingWord  = "stopping"  // it is about to exit
)

// ErrRunning means that a daemon serves that socket already.
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
