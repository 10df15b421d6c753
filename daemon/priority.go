//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// niceness of the daemon: in a storm of forks it has to be scheduled beside the
// processes that it is to end.
const niceness = -20

// favour raises the priority of all threads of this process, and of its autogroup: a kernel with autogroups (sched(7))
// compares threads only within one. It leaves the autogroup of another process's POSIX session alone.
func favour() error {
	if sid, err := unix.Getsid(0); err == nil && sid == os.Getpid() {
		err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceness)), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("raise the priority of the autogroup: %w", err)
		}
	}
	// A thread that is made meanwhile inherits from its maker: none was missed only
	// once every thread has the priority already.
	for range 100 {
		if again, err := favourThreads(); err != nil || !again {
			return err
		}
	}
	return errors.New("raise the priority: threads are created too fast")
}

// favourThreads reports whether there was a thread of lower priority.
func favourThreads() (raised bool, err error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, fmt.Errorf("list threads: %w", err)
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return false, fmt.Errorf("list threads: %w", err)
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && 20-now <= niceness {
			continue // it has at least this already
		}
		raised = true
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, niceness); err != nil &&
			!errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("raise the priority: %w", err)
		}
	}
	return raised, nil
}
