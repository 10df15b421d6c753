//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A daemon has a higher priority than what it must end: each of its threads, and its
// sid if the kernel schedules by sid.
func TestDaemonComesFirst(t *testing.T) {
	i := stage.New(t)
	pid := i.Daemon().Process.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	for _, thread := range threads {
		var tid int
		_, err := fmt.Sscan(thread.Name(), &tid)
		require.NoError(t, err)
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

// As root, every thread of `lineage end` is a real-time thread; those of other commands are not.
func TestEndComesFirst(t *testing.T) {
	for _, c := range []struct {
		args   string
		nobody bool
		policy uint32
	}{
		{args: "end --yes x", policy: unix.SCHED_RR},
		{args: "end --yes x", nobody: true, policy: unix.SCHED_NORMAL},
		{args: "why end", policy: unix.SCHED_NORMAL},
		{args: "run --name end true", policy: unix.SCHED_NORMAL},
		{args: "ls", policy: unix.SCHED_NORMAL},
	} {
		t.Run(fmt.Sprintf("%s, nobody=%v", c.args, c.nobody), func(t *testing.T) {
			i := stage.New(t)
			server := i.Listen().(*net.UnixListener)
			require.NoError(t, server.SetDeadline(time.Now().Add(stage.Patience)))
			require.NoError(t, os.Chmod(i.Socket, 0o666))
			var p *stage.Process
			if c.nobody {
				p = i.StartNobody(nil, strings.Fields(c.args)...)
			} else {
				p = i.Start(strings.Fields(c.args), nil)
			}
			conn, err := server.Accept() // it has sent a request, and waits for the answer
			require.NoError(t, err)
			defer conn.Close()
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Process.Pid))
			if err != nil || len(threads) < 2 {
				t.Fatalf("threads %v, %v", threads, err)
			}
			for _, thread := range threads {
				tid, err := strconv.Atoi(thread.Name())
				require.NoError(t, err)
				if a, err := unix.SchedGetAttr(tid, 0); err != nil || a.Policy != c.policy {
					t.Errorf("thread %d: policy %+v, %v, want %d", tid, a, err, c.policy)
				}
			}
		})
	}
}
