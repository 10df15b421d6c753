//go:build linux

package status

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CanaryArg is the first argument of the hidden mode in which a program is a canary.
// main must look for it before anything else and call [CanaryMain].
const CanaryArg = "__canary"

// CanaryLimit is how long a process of a canary may live.
const CanaryLimit = 30 * time.Second

// The stages, in the only order in which one starts the next.
const (
	stageRoot   = "root"
	stageMiddle = "middle"
	stageOrphan = "orphan"
	stageLast   = "last"
)

// The lines that the tree prints.
const (
	middleLine = "middle %d\n"
	orphanLine = "orphan %d\n"
)

// CanaryMain is one process of a canary; args is the command line after [CanaryArg]. It never
// returns. A process exits when its standard input ends, which it does with the daemon,
// and after [CanaryLimit] at the latest.
func CanaryMain(args []string) {
	time.AfterFunc(CanaryLimit, func() { os.Exit(1) })
	if err := stage(args); err != nil {
		fmt.Fprintln(os.Stderr, "lineage: canary:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func stage(args []string) error {
	if len(args) == 0 {
		return unix.EINVAL
	}
	switch args[0] {
	case stageRoot:
		if !released() {
			return nil
		}
		pid, err := start(true, stageMiddle)
		if err != nil {
			return err
		}
		if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
			return err
		}
	case stageMiddle:
		fmt.Printf(middleLine, os.Getpid())
		_, err := start(false, stageOrphan, strconv.Itoa(os.Getpid()))
		return err
	case stageOrphan:
		if len(args) < 2 {
			return unix.EINVAL
		}
		for strconv.Itoa(os.Getppid()) == args[1] {
			time.Sleep(time.Millisecond)
		}
		return syscall.Exec("/proc/self/exe", argv(stageLast), nil)
	case stageLast:
		fmt.Printf(orphanLine, os.Getpid())
	default:
		return unix.EINVAL
	}
	released() // no second byte is ever written: this waits for the end
	return nil
}

// released waits for a byte; false: the daemon has closed its end.
func released() bool {
	n, err := os.Stdin.Read(make([]byte, 1))
	return n == 1 && err == nil
}

func argv(args ...string) []string { return append([]string{"lineage", CanaryArg}, args...) }

// start starts the next stage, in a POSIX session of its own or in ours.
func start(setsid bool, args ...string) (pid int, err error) {
	return syscall.ForkExec("/proc/self/exe", argv(args...), &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: setsid},
	})
}
