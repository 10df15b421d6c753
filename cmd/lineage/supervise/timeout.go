//go:build linux

package supervise

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
)

const exitTimedOut = 124

// Limit is what timeout(1) takes.
type Limit struct {
	After      time.Duration // the deadline; 0: none
	KillAfter  time.Duration // SIGKILL this long after the first signal that ends the command; 0: never
	Signal     unix.Signal   // at the deadline
	Foreground bool          // signal the command alone, not its process group, and let it have the terminal
	Preserve   bool          // the exit code is the command's at the deadline, too
	Verbose    bool          // say which signals are sent
}

// timed is a Limit at work, with the state of timeout(1)'s handler.
type timed struct {
	Limit
	over   bool        // the deadline has passed
	kill   bool        // SIGKILL was sent
	diedOf unix.Signal // as we have to; 0: the exit code says all
}

// Timeout runs o.Args as [Run] does, or as [Init] does where it gets no session, with the signals
// and exit codes of timeout(1). If the command died of a signal before the deadline, so
// do we. Of o it takes the command, the streams and the daemon.
func Timeout(ctx context.Context, o Options, l Limit) int {
	o.verb, o.Quiet, o.Subreaper = "timeout", true, true
	if l.KillAfter > 0 {
		o.Grace = new(min(l.KillAfter, api.MaxGrace))
	}
	r := &runner{Options: o, timed: &timed{Limit: l}}
	code := r.code(r.run(ctx))
	if sig := r.timed.diedOf; sig != 0 {
		// A shell ends its loop if Ctrl-C ended the command. There is no core dump: run makes us undumpable.
		runtime.LockOSThread()
		shim.Action(sig, &shim.Sigaction{})
		unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
	}
	return code
}

// fallsBack reports whether the command runs without a session, because it gets none.
func (t *timed) fallsBack(r *runner, err error) bool {
	if t == nil || errors.As(err, new(*failure)) {
		return false
	}
	if t.Verbose {
		r.say("timeout: no session, %v: what descends from %s is ended; %s",
			err, r.command(), unknownToSubreaper)
	}
	return true
}

func (t *timed) killed() bool { return t != nil && t.kill }

// ms is the deadline for the daemon; 0: none.
func (t *timed) ms() int64 {
	if t == nil {
		return 0
	}
	return min(t.After.Milliseconds(), api.MaxLimit)
}

// catch catches our signals, and returns those that the command has to ignore. timeout catches
// ignored ones, too, as timeout(1) does, and then the command has them, and two stops, at their default. run
// forwards those that a command may handle although they were ignored.
func (t *timed) catch(others ...os.Signal) (ignores, *caught) {
	inherited := inheritedIgnores()
	stay := inherited & setOf(unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP)
	if t != nil {
		others = t.catches()
		inherited &^= setOf(others...)
		inherited &^= setOf(unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGTERM,
			unix.SIGCHLD, unix.SIGTTIN, unix.SIGTTOU)
		stay &= inherited
	}
	return inherited, catchSignals(stay, others...)
}

// catches are the signals that we act on besides those that are forwarded. SIGURG and SIGPROF are
// the Go runtime's, and SIGCHLD has its own channel.
func (t *timed) catches() []os.Signal {
	switch s := t.Signal; s {
	case 0, unix.SIGURG, unix.SIGPROF, unix.SIGCHLD:
		return []os.Signal{unix.SIGALRM}
	default:
		return []os.Signal{unix.SIGALRM, s}
	}
}

// begin starts the clock. SIGALRM is the deadline, whether the clock or a process sends it.
func (t *timed) begin(r *runner, j *job) {
	alarm := func(after time.Duration) {
		time.AfterFunc(after, func() { j.sigs.to <- unix.SIGALRM })
	}
	if t.After > 0 {
		alarm(t.After)
	}
	at := t.Signal
	j.limited = func(sig unix.Signal) bool {
		switch {
		case sig == unix.SIGALRM:
			if j.reap(); j.exited {
				return true // in time
			}
			t.over, sig = true, at
		case !endsRun(sig) && sig != t.Signal:
			return false
		}
		if t.KillAfter > 0 { // the deadline stays: it kills, too
			alarm(t.KillAfter)
			at, t.KillAfter = unix.SIGKILL, 0
		}
		if t.Verbose {
			t.tell(r, sig)
		}
		switch {
		case sig == unix.SIGKILL:
			t.kill = true // finish ends the rest
			fallthrough
		case t.Foreground:
			unix.Kill(j.pid, sig)
		default:
			j.signalGroup(sig)
			j.signalGroup(unix.SIGCONT)
		}
		return true
	}
}

// tell prints timeout(1)'s line.
func (t *timed) tell(r *runner, sig unix.Signal) {
	if r.Stderr != nil {
		io.WriteString(r.Stderr, "timeout: sending signal "+(*Signal)(&sig).String()+
			" to command '"+display.Text(r.Args[0])+"'\n")
	}
}

func (t *timed) code(ws unix.WaitStatus) int {
	switch {
	case !t.over && ws.Signaled():
		t.diedOf = ws.Signal()
	case t.over && !t.Preserve && !(ws.Signaled() && ws.Signal() == unix.SIGKILL):
		return exitTimedOut
	}
	return exitCode(ws)
}
