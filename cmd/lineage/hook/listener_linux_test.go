package hook

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestMain is also a daemon that listens and never answers.
func TestMain(m *testing.M) {
	if socket := os.Getenv("LNGTEST_LISTEN"); socket != "" {
		if _, err := net.Listen("unix", socket); err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Minute) // a limit; the test ends it earlier
		return
	}
	os.Exit(m.Run())
}

func TestLook(t *testing.T) {
	dir, err := os.MkdirTemp("", "lngtest-") // a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "sock")
	until := func(what string, want Listener) {
		t.Helper()
		require.Eventually(t, what, func() bool { return LookForListener(socket) == want })
	}
	until("absent", ListenerGone)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LNGTEST_LISTEN="+socket)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until("listening", ListenerRunning)
	for _, step := range []struct {
		signal syscall.Signal
		want   Listener
	}{{syscall.SIGSTOP, ListenerGone}, {syscall.SIGCONT, ListenerRunning}, {syscall.SIGKILL, ListenerGone}} {
		require.NoError(t, cmd.Process.Signal(step.signal))
		until(step.signal.String(), step.want)
	}
	require.NoError(t, os.Remove(socket))
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	until("a file", ListenerGone)
}
