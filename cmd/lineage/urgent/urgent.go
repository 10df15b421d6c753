//go:build linux

package urgent

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const schedRR = 2 // of sched_setscheduler(2)

func init() {
	if command(os.Args) == "end" {
		raise()
	}
}

// raise makes every thread of this process a real-time one. A thread that is made
// meanwhile has what its maker had: only when no thread had to be changed has none
// been missed.
func raise() {
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return
			}
			policy, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
			if errno != 0 || policy != 0 {
				continue // it is gone, or a real-time one
			}
			priority := int32(1)
			_, _, errno = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(tid), schedRR, uintptr(unsafe.Pointer(&priority)))
			switch errno {
			case 0:
				again = true
			case syscall.ESRCH: // it has exited
			default: // not permitted, or a sandbox that refuses the call
				return
			}
		}
	}
}

// command is the first argument that is neither a flag nor the value of one.
func command(args []string) string {
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--socket", arg == "--color":
			i++
		case arg == "" || arg[0] != '-':
			return arg
		}
	}
	return ""
}
