package urgent

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRelax: what a real-time process starts is real-time too, until Relax.
func TestRelax(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may have real-time threads")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, attr, 0); err != nil {
		t.Skipf("no real-time threads here: %v", err)
	}
	child := func() string {
		text, err := exec.Command("grep", "^policy", "/proc/self/sched").Output()
		if err != nil {
			stat, _ := exec.Command("cat", "/proc/self/stat").Output() // field 41
			return strings.Fields(string(stat))[40]
		}
		fields := strings.Fields(string(text))
		return fields[len(fields)-1]
	}
	if policy := child(); policy != "2" {
		t.Fatalf("policy %s of a child, want SCHED_RR: the test shows nothing", policy)
	}
	Relax()
	if policy := child(); policy != "0" {
		t.Errorf("policy %s of a child", policy)
	}
	if now, err := unix.SchedGetAttr(0, 0); err != nil || now.Policy != unix.SCHED_NORMAL {
		t.Errorf("%+v, %v", now, err)
	}
}
