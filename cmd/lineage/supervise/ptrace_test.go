//go:build linux

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A member cannot trace its run to make it fork: that child would be in no session. It
// can trace another process of its user, which shows that this host allows tracing; and
// it can be traced and dump core itself, as without run.
func TestMemberMayNotTraceRun(t *testing.T) {
	dir := nobodys(t)
	exe := filepath.Join(dir, "lngtest-run")
	b, err := os.ReadFile(self(t))
	if err == nil {
		err = os.WriteFile(exe, b, 0o755)
	}
	require.NoError(t, err)
	asNobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	other := exec.Command("sleep", "60")
	other.SysProcAttr = asNobody
	sleeper := start(t, other)
	defer sleeper.signal(unix.SIGKILL)

	cmd := runCmd(t, script{}, exe, "__lngtest", "attach", strconv.Itoa(other.Process.Pid))
	cmd.Path, cmd.SysProcAttr = exe, asNobody
	got := start(t, cmd).wait()
	if want := "dumpable 1\nrun: operation not permitted\nanother: <nil>\n"; got.code != 0 || got.stdout != want {
		t.Errorf("got %+v, want\n%s", got, want)
	}
}

// attach tries to trace the parent and process another.
func attach(another string) int {
	runtime.LockOSThread() // the tracer is a thread
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Println("dumpable", dumpable)
	pid, _ := strconv.Atoi(another)
	fmt.Println("run:", traced(os.Getppid()))
	fmt.Println("another:", traced(pid))
	return 0
}

func traced(pid int) error {
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}
