//go:build linux

package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminal is our controlling terminal. nil means no terminal: it has no foreground and
// cannot be given.
type terminal struct {
	fd    int
	ours  int           // our process group
	given bool          // to the command; now any of its groups may have it
	modes *unix.Termios // as they were before it was given first
}

// openTerminal returns nil if there is no controlling terminal.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd, ours: unix.Getpgrp()}
}

func (t *terminal) close() {
	if t != nil {
		unix.Close(t.fd)
	}
}

// front is the process group in the foreground, 0 if there is none.
func (t *terminal) front() int {
	if t == nil {
		return 0
	}
	pgrp, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgrp
}

// foreground reports whether we are the shell's foreground job and have the terminal
// ourselves.
func (t *terminal) foreground() bool { return t != nil && t.front() == t.ours }

// give makes pgrp the foreground group of the terminal, if we have it.
func (t *terminal) give(pgrp int) {
	if !t.foreground() {
		return
	}
	if t.modes == nil {
		t.modes, _ = unix.IoctlGetTermios(t.fd, unix.TCGETS)
	}
	t.given = t.setFront(pgrp) == nil
}

// take takes the terminal back after give, and returns the group that had it.
func (t *terminal) take() (from int) {
	if t == nil || !t.given {
		return 0
	}
	t.given = false
	from = t.front()
	_ = t.setFront(t.ours) // the terminal may have hung up
	return from
}

// lookAgain finds out, after we were continued, whether the shell has taken the
// terminal meanwhile, for itself or for us as its job. Then the command no longer has
// it. Any other group in front is one of the command's.
func (t *terminal) lookAgain() {
	if t == nil || !t.given {
		return
	}
	front := t.front()
	shell, err := unix.Getpgid(os.Getppid())
	if front == t.ours || err == nil && front == shell {
		t.given = false
	}
}

// restore restores the modes. It does not wait until the output has drained: without a
// reader at the other end that never happens.
func (t *terminal) restore() {
	if t == nil || t.modes == nil {
		return
	}
	withBlocked(unix.SIGTTOU, func() error {
		return unix.IoctlSetTermios(t.fd, unix.TCSETS, t.modes)
	})
}

// setFront works from the background too, where SIGTTOU would stop us.
func (t *terminal) setFront(pgrp int) error {
	return withBlocked(unix.SIGTTOU, func() error {
		return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
	})
}
