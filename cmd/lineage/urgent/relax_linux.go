package urgent

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Relax makes every thread an ordinary one again, before another program is started: that
// program would inherit the policy. SCHED_RESET_ON_FORK cannot be set at the entry point,
// because it resets new threads too, and the runtime's threads are new ones.
func Relax() {
	for changed := true; changed; {
		changed = false // until a look finds none: a real-time thread may have made another one
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if attr, err := unix.SchedGetAttr(tid, 0); err != nil || attr.Policy != unix.SCHED_RR {
				continue
			}
			changed = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr,
				Policy: unix.SCHED_NORMAL}, 0) == nil || changed
		}
	}
}
