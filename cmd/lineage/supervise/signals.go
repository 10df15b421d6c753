//go:build linux

package supervise

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

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
		if disposition(sig) == sigIgn {
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

// catchSignals catches our signals until the process exits. It misses the exit of a
// child that was forked before: see lookAgain. In children a caught signal is at its
// default again. others are caught in addition to those that run forwards. Signals of stay
// stay ignored and do not arrive.
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

// lookAgain triggers another look at the children.
func (c *caught) lookAgain() {
	select {
	case c.children <- unix.SIGCHLD:
	default: // a look is due anyway
	}
}

// stopLike stops us as the command was stopped, so that the shell that started us sees
// a stopped job, and returns when we are continued. A stop from the terminal is for the
// whole job: the rest of a pipeline stops with us. The kernel does not stop an orphaned
// process group this way, as no shell could continue it; then stopLike returns at once.
func stopLike(sig unix.Signal) {
	// Directed at this thread, the stop takes place before tgkill returns.
	// Directed at the process, another thread might stop us a little later.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if sig != unix.SIGSTOP {
		// os/signal cannot restore a signal's default action.
		before := setDisposition(sig, sigaction{handler: sigIgn})
		defer setDisposition(sig, before)
		unix.Kill(0, sig)
		setDisposition(sig, sigaction{handler: sigDfl})
	}
	unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// withBlocked calls f in a thread in which sig is blocked.
func withBlocked(sig unix.Signal, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, before unix.Sigset_t
	bits := uint(unsafe.Sizeof(set.Val[0]) * 8)
	n := uint(sig) - 1
	set.Val[n/bits] |= 1 << (n % bits)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return f()
}

const (
	sigDfl = 0
	sigIgn = 1
)

// sigaction is the kernel's struct sigaction of amd64 and arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// disposition is the handler of sig.
func disposition(sig unix.Signal) uintptr {
	var now sigaction
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
	return now.handler
}

// setDisposition sets the disposition of sig and returns the previous one.
func setDisposition(sig unix.Signal, a sigaction) (before sigaction) {
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&a)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	return before
}
