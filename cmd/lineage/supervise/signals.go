//go:build linux

package supervise

import (
	"os"
	"os/signal"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
)

// forwarded are the signals to us that are passed to the command.
var forwarded = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}

// endsRun reports whether sig asks us to end, while there is no command that would
// decide this.
func endsRun(sig unix.Signal) bool {
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// ignores has a bit for each signal that was ignored when we started: HUP by nohup, INT
// and QUIT for background commands of a shell without job control.
type ignores uint64

func setOf(signals ...os.Signal) (set ignores) {
	for _, s := range signals {
		set |= 1 << (s.(unix.Signal) - 1)
	}
	return set
}

func (i ignores) has(sig os.Signal) bool { return i&setOf(sig) != 0 }

// inheritedIgnores must be called before catchSignals. Without the entry point of package
// urgent, it misses what the Go runtime has replaced: all but HUP, INT and the stops.
func inheritedIgnores() ignores {
	set := ignores(urgent.Ignored)
	for sig := unix.Signal(1); sig <= 64; sig++ {
		if shim.Action(sig, nil).Handler == shim.Ignore {
			set |= setOf(sig)
		}
	}
	return set
}

// caught receives our signals: children when a child exited or stopped, to what other
// processes sent us.
type caught struct {
	children chan os.Signal
	to       chan os.Signal
}

// catchSignals catches our signals, and others, until the process exits; in children they are at their default again.
// It misses the exit of a child that was forked before: see lookAgain. Signals of stay stay ignored.
func catchSignals(stay ignores, others ...os.Signal) *caught {
	c := &caught{
		children: make(chan os.Signal, 1), // one is enough: it only means "look"
		to:       make(chan os.Signal, 64),
	}
	signal.Notify(c.children, unix.SIGCHLD)
	for _, s := range slices.Concat([]os.Signal{unix.SIGTSTP, unix.SIGCONT}, forwarded, others) {
		if stay.has(s) {
			signal.Ignore(s) // again: the runtime has its own handler of SIGQUIT
		} else {
			signal.Notify(c.to, s)
		}
	}
	return c
}

func (c *caught) lookAgain() {
	select {
	case c.children <- unix.SIGCHLD:
	default: // a look is due anyway
	}
}

// stopLike stops us as the command was stopped, so that our shell sees a stopped job, and returns when we are continued.
// A stop from the terminal is for the whole job. The kernel stops no orphaned process group: then it returns at once.
func stopLike(sig unix.Signal) {
	// Directed at this thread, the stop takes place before tgkill returns.
	// Directed at the process, another thread might stop us a little later.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if sig != unix.SIGSTOP {
		// os/signal cannot restore a signal's default action.
		before := shim.Action(sig, &shim.Sigaction{Handler: shim.Ignore})
		defer shim.Action(sig, &before)
		unix.Kill(0, sig)
		shim.Action(sig, &shim.Sigaction{})
	}
	unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

func withBlocked(sig unix.Signal, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &unix.Sigset_t{Val: [16]uint64{1 << (sig - 1)}},
		&before); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return f()
}
