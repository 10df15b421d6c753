//go:build linux

package daemon

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// niceness of the daemon: in a storm of forks it has to get its turn beside
// those whom it is to end.
const niceness = -10

// favour raises the priority of every thread of this process, and so of those
// that they will make.
func favour() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && 20-now <= niceness {
			continue // somebody gave it more
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, niceness); err != nil {
			return fmt.Errorf("raise the priority: %w", err)
		}
	}
	return nil
}
