//go:build linux

package supervise

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// job is the command in the foreground of the shell: it stops and continues with us, and has the terminal while we are
// the shell's foreground job. Only its goroutine reaps: the command's PID cannot be reused while it is signalled.
type job struct {
	pid    int
	tty    *terminal
	eager  bool // give the terminal without being asked
	sigs   *caught
	status unix.WaitStatus
	exited bool
	halted bool // stopped, and we did not stop with it

	orphans int                        // reaped so far
	orphan  func(int, unix.WaitStatus) // called for each; may be nil

	termed time.Time // when the last SIGTERM came
	terms  int       // how many came, see insists
	insist func(int) // gets how many came, from the second on; nil: all are forwarded

	limited func(unix.Signal) bool // reports whether it acted on the signal; nil: no limit
}

func newJob(pid int, tty *terminal, eager bool, sigs *caught) *job {
	return &job{pid: pid, tty: tty, eager: eager, sigs: sigs}
}

// wait serves the command until it exits.
func (j *job) wait() unix.WaitStatus {
	for !j.exited {
		select {
		case <-j.sigs.children:
			j.reap()
		case s := <-j.sigs.to:
			if sig := s.(unix.Signal); j.limited == nil || !j.limited(sig) {
				j.signal(sig)
			}
		}
	}
	return j.status
}

// settle gives the terminal back to the shell, which keeps a job's modes if it exits, as we do. After a success the
// modes stay, as `stty` under run must work; after anything else they are restored.
func (j *job) settle(failed bool) {
	had := j.tty != nil && j.tty.given
	j.tty.take()
	if had && failed {
		j.tty.restore()
	}
}

// reap waits for all children with a status to report: the command, and orphans that
// became ours. It reports whether there is no child at all.
func (j *job) reap() (childless bool) {
	for range reapBatch {
		pid, err := exitedChild()
		switch {
		case errors.Is(err, unix.ECHILD):
			return true
		case err != nil:
			return false
		case pid != 0:
			j.collect(pid)
		case j.exited || !j.collect(j.pid): // it may have stopped
			return false
		}
	}
	j.sigs.lookAgain()
	return false
}

// collect takes a status of child pid, and reports whether there was one.
func (j *job) collect(pid int) bool {
	options := unix.WNOHANG
	if pid == j.pid && !j.exited {
		options |= unix.WUNTRACED
	}
	var ws unix.WaitStatus
	got, err := unix.Wait4(pid, &ws, options|unix.WALL, nil)
	switch {
	case errors.Is(err, unix.EINTR):
		return true
	case err != nil || got != pid:
		return false
	case pid != j.pid || j.exited:
		j.orphans++
		if j.orphan != nil {
			j.orphan(pid, ws)
		}
	case ws.Stopped():
		j.stopped(ws.StopSignal())
	default:
		j.status, j.exited = ws, true
	}
	return true
}

func (j *job) signal(sig unix.Signal) {
	switch sig {
	case unix.SIGCONT:
		j.continued()
	case unix.SIGTSTP:
		// Ctrl-Z while the command does not have the terminal. If it stops, we stop; if
		// it ignores this, so do we.
		j.signalGroup(sig)
	case unix.SIGWINCH:
		if j.tty == nil || !j.tty.given {
			unix.Kill(j.pid, sig)
		}
	case unix.SIGINT, unix.SIGQUIT:
		if j.tty.foreground() {
			// Ctrl-C or Ctrl-\ that the command's group would have got if it had the
			// terminal: `run sh -c "make; echo" | cat` must end make.
			j.signalGroup(sig)
			return
		}
		unix.Kill(j.pid, sig)
	case unix.SIGTERM:
		if j.insist != nil && j.insists() {
			j.insist(j.terms)
			return
		}
		unix.Kill(j.pid, sig)
	default:
		unix.Kill(j.pid, sig)
	}
}

// termPause is how much later another SIGTERM must come to count as a second one:
// timeout(1) and others signal their child and then its process group.
const termPause = time.Second

// insists reports whether this SIGTERM repeats one that the command did not obey.
func (j *job) insists() bool {
	now := time.Now()
	if j.terms == 0 || now.Sub(j.termed) >= termPause {
		j.terms, j.termed = j.terms+1, now
		return j.terms > 1
	}
	return false
}

func (j *job) stopped(sig unix.Signal) {
	asks := sig == unix.SIGTTIN || sig == unix.SIGTTOU
	if asks && j.tty.foreground() {
		// It needs the terminal, and we have it.
		j.tty.give(j.group())
		j.signalGroup(unix.SIGCONT)
		return
	}
	if limited := j.limited != nil; (limited || sig == unix.SIGSTOP) && !watched() ||
		limited && sig != unix.SIGTSTP {
		// Nothing would continue us, or a deadline must not wait. The process that stopped
		// the command must continue it.
		j.halted = true
		return
	}
	asks = asks || j.tty != nil && j.tty.given
	front := j.tty.take()
	stopLike(sig)
	if asks {
		if front == 0 || front == unix.Getpgrp() || unix.Kill(-front, 0) != nil {
			front = j.group()
		}
		j.tty.give(front)
	}
	j.signalGroup(unix.SIGCONT)
}

// continued acts on a SIGCONT that came to us. The SIGCONT that ended our own stop has
// ended stopLike already and is ignored here. So is one that came before a new stop of
// the command.
func (j *job) continued() {
	if j.reap(); j.exited {
		return
	}
	j.tty.lookAgain()
	if j.eager {
		j.tty.give(j.group())
	}
	if j.halted {
		j.halted = false
		j.signalGroup(unix.SIGCONT)
	}
}

// group is the command's process group, for the terminal.
func (j *job) group() int {
	if pgrp, err := unix.Getpgid(j.pid); err == nil && pgrp != unix.Getpgrp() {
		return pgrp
	}
	return j.pid
}

// signalGroup signals the group that the command leads, or the command alone if it
// moved to another group, whose members we do not know.
func (j *job) signalGroup(sig unix.Signal) {
	if pgrp, err := unix.Getpgid(j.pid); err == nil && pgrp == j.pid {
		unix.Kill(-pgrp, sig)
		return
	}
	unix.Kill(j.pid, sig)
}

// watched reports whether our parent can be a shell with job control: in our sid, with
// its own process group.
func watched() bool {
	parent := os.Getppid()
	sid, err := unix.Getsid(parent)
	if err != nil {
		return false
	}
	ours, err := unix.Getsid(0)
	if err != nil || ours != sid {
		return false
	}
	pgrp, err := unix.Getpgid(parent)
	return err == nil && pgrp != unix.Getpgrp()
}
