//go:build linux

package urgent

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A test binary that is called as `lineage end` would be says how its threads are
// scheduled.
func TestMain(m *testing.M) {
	if command(os.Args) == "" {
		os.Exit(m.Run())
	}
	done := make(chan struct{})
	for range 4 {
		go func() {
			runtime.LockOSThread() // one more thread each
			<-done
		}()
	}
	runtime.Gosched()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		panic(err)
	}
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		if a, err := unix.SchedGetAttr(tid, 0); err == nil {
			fmt.Println(a.Policy, a.Priority)
		}
	}
	close(done)
	os.Exit(0)
}

func TestEndComesFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for line, want := range map[string]string{
		"end x":                 "2 1",
		"--socket end end x":    "2 1",
		"--color=never end":     "2 1",
		"run -- sh -c end":      "0 0",
		"--socket end run true": "0 0",
		"why end":               "0 0",
	} {
		out, err := exec.Command("/proc/self/exe", strings.Fields(line)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		threads := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(threads) < 2 {
			t.Errorf("%s: %d threads", line, len(threads))
		}
		for _, got := range threads {
			if got != want {
				t.Errorf("%s: policy and priority %s, want %s", line, got, want)
			}
		}
	}
}

// Without the right to it nothing changes, and nothing fails.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exec.Command("/proc/self/exe", "end")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "2 1") || !strings.Contains(string(out), "0 0") {
		t.Errorf("%v: %s", err, out)
	}
}
