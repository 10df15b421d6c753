//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/testdata/e2e/stage"
	"golang.org/x/sys/unix"
)

// A daemon comes before what it is to end: each thread of it, and where the
// kernel shares the CPUs out by POSIX session, its session.
func TestDaemonComesFirst(t *testing.T) {
	i := stage.New(t)
	pid := i.Daemon().Process.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		var tid int
		if _, err := fmt.Sscan(thread.Name(), &tid); err != nil {
			t.Fatal(err)
		}
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil || 20-nice != -20 {
			t.Errorf("thread %d has nice %d, %v", tid, 20-nice, err)
		}
	}
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel has no autogroups (CONFIG_SCHED_AUTOGROUP)")
	}
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(group)), "nice -20") {
		t.Errorf("autogroup %q, %v", group, err)
	}
}
