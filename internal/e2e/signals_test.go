//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// sendSignals tries each way to signal a process, the leader of its process group, and prints for each
// the error. The signal is SIGTERM.
func sendSignals(word string) int {
	pid, err := strconv.Atoi(word)
	if err != nil || pid < 2 { // -1 would be everybody
		return 2
	}
	for way, send := range map[string]func() error{
		"kill":  func() error { return unix.Kill(pid, unix.SIGTERM) },
		"group": func() error { return unix.Kill(-pid, unix.SIGTERM) },
		"tgkill": func() error {
			return unix.Tgkill(pid, pid, unix.SIGTERM)
		},
		"pidfd": func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
		},
		"owner": func() error { return signalOwner(pid) },
	} {
		err := send()
		fmt.Printf("%s=%v\n", way, err)
	}
	return 0
}

// signalOwner makes a process the owner of a pipe, with SIGTERM as the signal, and writes to the pipe. The
// kernel refuses the signal without an error.
func signalOwner(pid int) error {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	for cmd, arg := range map[int]int{unix.F_SETOWN: pid, unix.F_SETSIG: int(unix.SIGTERM), unix.F_SETFL: unix.O_ASYNC} {
		if _, err := unix.FcntlInt(uintptr(p[0]), cmd, arg); err != nil {
			return err
		}
	}
	_, err := unix.Write(p[1], []byte("x"))
	return err
}

// TestSignalsStayInSession: no member of a session with --signals session reaches a process outside,
// whether root started it or not. Members reach one another, and without the flag the outsider.
func TestSignalsStayInSession(t *testing.T) {
	i := stage.NewDaemon(t)
	if p := i.Lineage("run", "--signals", "session", "true"); p.Code() != 0 {
		tracertest.Lacks(t, tracertest.AtLeast(t, 6, 12), p)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	self = i.Copy(self)
	for _, as := range []struct {
		name       string
		uid        uint32
		start      func(env []string, args ...string) *stage.Process
		privileges string // the command's no_new_privs
	}{
		{"root", 0, func(env []string, args ...string) *stage.Process { return i.Start(args, env) }, "0"},
		{"nobody", stage.Nobody, i.StartNobody, "1"},
	} {
		t.Run(as.name, func(t *testing.T) {
			cmd := exec.Command("sleep", "100")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: as.uid, Gid: as.uid}}
			outsider := stage.Start(t, cmd)
			run := func(scope string, command ...string) string {
				p := as.start(nil, slices.Concat([]string{"run", "--grace", "0s", "--signals", scope, "--"}, command)...).Wait()
				if p.Code() != 0 {
					t.Fatal(p)
				}
				return p.Out.String()
			}
			out := run("session", self, "lngtest-signals", strconv.Itoa(cmd.Process.Pid))
			for _, way := range []string{"kill", "group", "tgkill", "pidfd"} {
				require.Contains(t, out, way+"=operation not permitted\n")
			}
			require.Contains(t, out, "owner=<nil>\n")
			require.Equal(t, run("session", "sh", "-c", "sleep 100 & kill $!; wait $!; echo $?"), "143\n")
			require.Contains(t, run("session", "cat", "/proc/self/status"), "NoNewPrivs:\t"+as.privileges)
			if outsider.Exited() {
				t.Fatal("the outsider got a signal")
			}
			run("any", self, "lngtest-signals", strconv.Itoa(cmd.Process.Pid))
			outsider.Wait()
		})
	}
}
