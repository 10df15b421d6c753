//go:build linux

package supervise

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// job is the command in front of the shell: we stop when it stops, continue it
// when we are continued, and lend it the terminal while we are the shell's
// foreground job. All of it runs in one goroutine, which is also the only one
// that reaps: the command's PID stays its own as long as it is signalled.
type job struct {
	pid    int
	tty    *terminal
	eager  bool // the terminal is handed over unasked
	sigs   *caught
	status unix.WaitStatus
	exited bool
	halted bool // stopped, and we did not stop with it

	orphans int                        // reaped so far
	orphan  func(int, unix.WaitStatus) // told of each; may be nil

	termed time.Time // when the last SIGTERM came
	terms  int       // that came, see insists
	insist func(int) // told how many came, from the second on; nil: all are forwarded
}

func newJob(pid int, tty *terminal, eager bool, sigs *caught) *job {
	return &job{pid: pid, tty: tty, eager: eager, sigs: sigs}
}

// start hands the terminal over before the command's first instruction.
func (j *job) start() {
	if j.eager {
		j.tty.give(j.pid)
	}
}

// wait serves the command until it exits.
func (j *job) wait() unix.WaitStatus {
	for !j.exited {
		select {
		case <-j.sigs.children:
			j.reap()
		case s := <-j.sigs.to:
			j.signal(s.(unix.Signal))
		}
	}
	return j.status
}

// settle makes the terminal the shell's again. The shell takes a job's modes
// over if it exits and puts its own back if a signal killed it; since it sees
// only an exit of ours, we decide: modes stay as a success left them, `stty`
// under run must work, and go back after everything else.
func (j *job) settle(failed bool) {
	had := j.tty != nil && j.tty.given
	j.tty.take()
	if had && failed {
		j.tty.restore()
	}
}

// reap waits for all children that have something to say: the command, and
// orphans that became ours. It tells whether there is no child at all.
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

// collect takes what child pid has to say, and tells whether it was anything.
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

// signal acts on a signal that was sent to us.
func (j *job) signal(sig unix.Signal) {
	switch sig {
	case unix.SIGCONT:
		j.continued()
	case unix.SIGTSTP:
		// Ctrl-Z while the command has not the terminal. It stops, or not if
		// it does not care, and then neither do we.
		j.signalGroup(sig)
	case unix.SIGWINCH:
		if j.tty == nil || !j.tty.given {
			unix.Kill(j.pid, sig)
		}
	case unix.SIGINT, unix.SIGQUIT:
		if j.tty.foreground() {
			// Ctrl-C or Ctrl-\ that the command's group would have got, had it
			// the terminal: `run sh -c "make; echo" | cat` must end make.
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

// termPause is how much later another SIGTERM has to come to be meant as one:
// timeout(1) and others signal their child and then its process group.
const termPause = time.Second

// insists tells whether somebody asks again what the command does not do.
func (j *job) insists() bool {
	now := time.Now()
	if j.terms == 0 || now.Sub(j.termed) >= termPause {
		j.terms, j.termed = j.terms+1, now
		return j.terms > 1
	}
	return false
}

// stopped acts on a stop of the command.
func (j *job) stopped(sig unix.Signal) {
	asks := sig == unix.SIGTTIN || sig == unix.SIGTTOU
	if asks && j.tty.foreground() {
		// It needs the terminal, and it is ours to give.
		j.tty.give(j.group())
		j.signalGroup(unix.SIGCONT)
		return
	}
	if sig == unix.SIGSTOP && !watched() {
		// Nobody would continue us. Whoever stopped it knows whom to continue.
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

// continued acts on a SIGCONT that came to us. That of a stop of ours ended
// stopLike already and is old news here, and so is one that a new stop of the
// command has overtaken.
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

// signalGroup signals the group that the command leads, or the command alone
// if it moved: to another group, of which we do not know who is in it.
func (j *job) signalGroup(sig unix.Signal) {
	if pgrp, err := unix.Getpgid(j.pid); err == nil && pgrp == j.pid {
		unix.Kill(-pgrp, sig)
		return
	}
	unix.Kill(j.pid, sig)
}

// watched tells whether our parent can be a shell with job control: of our
// POSIX session, in a process group of its own.
func watched() bool {
	parent := os.Getppid()
	sid, err := unix.Getsid(parent)
	if err != nil {
		return false
	}
	own, err := unix.Getsid(0)
	if err != nil || own != sid {
		return false
	}
	pgrp, err := unix.Getpgid(parent)
	return err == nil && pgrp != unix.Getpgrp()
}
