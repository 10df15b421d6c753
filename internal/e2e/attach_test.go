//go:build linux

package e2e

import (
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A run and its shim become undumpable by their first system call, before Go's runtime: a
// process of their user that waits for them has the time of a few instructions to attach.
func TestUndumpableAtOnce(t *testing.T) {
	for args, want := range map[string]bool{
		"run -- true": true, "--socket /nowhere run -- true": true, "__shim 0 1 true": true,
		"version": false, "why running": false, "": false,
	} {
		nr, first := firstCall(t, strings.Fields(args)...)
		if got := nr == unix.SYS_PRCTL && first[0] == unix.PR_SET_DUMPABLE && first[1] == 0; got != want {
			t.Errorf("lineage %s: first system call %d%v, want undumpable %v", args, nr, first, want)
		}
	}
}

// firstCall is the first system call of a lineage, which is killed there.
func firstCall(t *testing.T, args ...string) (nr uint64, arg [6]uint64) {
	t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(stage.Lineage, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	defer func() {
		unix.Kill(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, unix.WALL, nil)
	}()
	stopped := func(want unix.Signal) {
		t.Helper()
		var ws unix.WaitStatus
		if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil || !ws.Stopped() || ws.StopSignal() != want {
			t.Fatalf("not stopped by %v: %#x, %v", want, ws, err)
		}
	}
	stopped(unix.SIGTRAP) // its exec
	require.NoError(t, unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL))
	require.NoError(t, unix.PtraceSyscall(pid, 0))
	stopped(unix.SIGTRAP | 0x80)
	var info struct { // struct ptrace_syscall_info
		op, _, _, _ uint8
		_           uint32
		_, _, nr    uint64
		args        [6]uint64
	}
	const entry = 1
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 || info.op != entry {
		t.Fatalf("PTRACE_GET_SYSCALL_INFO: %v, op %d", errno, info.op)
	}
	return info.nr, info.args
}
