//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/testdata/e2e/stage"
)

// Every thread of the daemon comes before those whom it is to end.
func TestPriority(t *testing.T) {
	i := stage.NewDaemon(t)
	i.Must("run", "-q", "--", "true") // it has made threads by then
	pid := i.Version().PID
	tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil || len(tasks) < 4 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		// The system call gives 20 less the niceness.
		if n, err := unix.Getpriority(unix.PRIO_PROCESS, stage.Number(t, task.Name())); err == nil && n != 30 {
			t.Errorf("thread %s has niceness %d", task.Name(), 20-n)
		}
	}
}
