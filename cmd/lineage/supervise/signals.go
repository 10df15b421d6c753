//go:build linux

package supervise

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that the command gets in our stead.
var forwarded = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}

// endsRun tells whether sig asks us to end, as far as there is no command that
// would decide for us.
func endsRun(sig unix.Signal) bool {
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// ignores are the signals that whoever started us had ignored: nohup HUP, a
// shell without job control INT and QUIT of what it puts in the background.
type ignores struct {
	interrupt, hangup, quit, stop bool
}

// inheritedIgnores must be called before catchSignals. The Go runtime keeps
// inherited ignores of HUP and INT only. QUIT's is gone before main; the one
// who ignores it, POSIX's asynchronous list, ignores INT too, and so QUIT
// goes with INT.
func inheritedIgnores() ignores {
	interrupt := signal.Ignored(unix.SIGINT)
	return ignores{
		interrupt: interrupt,
		hangup:    signal.Ignored(unix.SIGHUP),
		quit:      interrupt,
		stop:      disposition(unix.SIGTSTP) == sigIgn,
	}
}

// caught is where our signals arrive: children when a child exited or stopped,
// to what others sent us. What was ignored stays ignored and does not arrive.
type caught struct {
	children chan os.Signal
	to       chan os.Signal
}

// catchSignals catches what concerns us until the process exits. The exit of a
// child that was forked before is missed: see lookAgain. A caught signal is at
// its default in the children again. others are caught besides what run
// forwards.
func catchSignals(inherited ignores, others ...os.Signal) *caught {
	c := &caught{
		children: make(chan os.Signal, 1), // one is enough: it says "look"
		to:       make(chan os.Signal, 64),
	}
	signal.Notify(c.children, unix.SIGCHLD)
	ignored := map[os.Signal]bool{
		unix.SIGINT:  inherited.interrupt,
		unix.SIGHUP:  inherited.hangup,
		unix.SIGQUIT: inherited.quit,
		unix.SIGTSTP: inherited.stop,
	}
	for _, s := range slices.Concat([]os.Signal{unix.SIGTSTP, unix.SIGCONT}, forwarded, others) {
		if !ignored[s] {
			signal.Notify(c.to, s)
		}
	}
	if inherited.quit {
		signal.Ignore(unix.SIGQUIT)
	}
	return c
}

// lookAgain has the children looked at once more.
func (c *caught) lookAgain() {
	select {
	case c.children <- unix.SIGCHLD:
	default: // it is due anyway
	}
}

// stopLike stops us as the command was stopped, so that the shell that started
// us sees a stopped job, and returns when we were continued. A stop from the
// terminal is for the whole job: the rest of a pipeline stops with us. The
// kernel refuses such a stop to an orphaned process group, where nobody could
// continue us; then stopLike returns at once.
func stopLike(sig unix.Signal) {
	// Directed at this thread, the stop takes place before tgkill returns.
	// Directed at the process, another thread might stop us a little later.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if sig != unix.SIGSTOP {
		// os/signal cannot give a signal its default action back.
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

// setDisposition sets the disposition of sig and gives the one before.
func setDisposition(sig unix.Signal, a sigaction) (before sigaction) {
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&a)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	return before
}
