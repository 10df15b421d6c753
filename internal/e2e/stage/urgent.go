//go:build linux

package stage

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Urgent calls start, whose processes run as real-time processes, if the kernel allows it: those that give up after some
// milliseconds get a CPU in time.
func Urgent(start func()) {
	runtime.LockOSThread() // children inherit the policy of the thread that starts them
	defer runtime.UnlockOSThread()
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if unix.SchedSetAttr(0, &attr, 0) == nil {
		attr.Policy, attr.Priority = unix.SCHED_NORMAL, 0
		defer func() { _ = unix.SchedSetAttr(0, &attr, 0) }() // it may always have less
	}
	start()
}
