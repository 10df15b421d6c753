//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOutsiderKilled: who killed a process in no session is known, if the policy asks for that.
func TestOutsiderKilled(t *testing.T) {
	for _, deaths := range []string{"on", "off"} {
		i := stage.New(t)
		i.Daemon("--policy", i.Policy("daemon: {deaths: "+deaths+"}\n"))
		cmd := exec.Command("sleep", "100")
		p := stage.Start(t, cmd)
		require.NoError(t, unix.Kill(cmd.Process.Pid, unix.SIGKILL))
		p.Wait()
		pid := fmt.Sprint(cmd.Process.Pid)
		if deaths == "off" {
			require.Equal(t, i.Lineage("why", pid).ProcessState.ExitCode(), api.ExitNotFound)
			continue
		}
		require.Contains(t, i.Must("why", pid).Out.String(), pid+" sleep — in no session",
			fmt.Sprintf("killed by SIGKILL from %d ", os.Getpid()))
	}
}
