//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What the PID file says of a daemon besides its PID.
const (
	ephemeralWord = "ephemeral" // a command started it: it yields to another one
	stoppingWord  = "stopping"  // it is about to go
)

// serving is held by an instance's daemon for as long as it lives, whatever
// becomes of its socket: two daemons must not read one ring. It is a record
// lock on the PID file, which the kernel drops with its process, and of which
// it names the holder.
type serving struct{ file *os.File }

// stopping lets the next daemon wait for us.
func (s *serving) stopping() error { return note(s.file, stoppingWord) }

// release lets the next daemon in. The file stays: who removed it could remove
// the next one's.
func (s *serving) release() { s.file.Close() }

// serve becomes the instance's daemon. An ephemeral one that still runs is told
// to stop: its sessions go on in the kernel, and we take them over. It is no
// matter of its socket, which a service manager may have replaced.
func (i instance) serve(ctx context.Context, ephemeral bool) (*serving, error) {
	f, err := os.OpenFile(i.pid, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open PID file: %w", err)
	}
	told := 0
	err = poll(ctx, func() (bool, error) {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, wholeFile(unix.F_WRLCK))
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return true, err
		}
		pid, err := i.retire(f)
		if pid != told {
			told = pid
			return false, err
		}
		return false, nil
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("serve %s: pid %d does not stop: %w", i.socket, told, ErrRunning)
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
	return &serving{f}, nil
}

func wholeFile(kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart}
}

// lockHolder is the PID of who holds the lock, 0 if nobody does.
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

// retire tells the daemon that holds the lock to stop, if it is ephemeral, and
// gives its PID; 0 if it has gone.
func (i instance) retire(f *os.File) (pid int, err error) {
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
		return pid, fmt.Errorf("serve %s: %w as pid %d", i.socket, ErrRunning, pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, nil // it has just gone
	}
	defer unix.Close(fd)
	// It holds the lock after the pidfd was opened: it is whom the pidfd pins.
	if now, err := lockHolder(f); err != nil || now != pid {
		return 0, err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return pid, fmt.Errorf("take over from pid %d: %w", pid, err)
	}
	return pid, nil
}

// note writes who serves, for people and for retire.
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
