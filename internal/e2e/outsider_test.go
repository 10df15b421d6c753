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
	for _, on := range []bool{false, true} {
		i := stage.New(t)
		i.Daemon("--policy", i.Policy(fmt.Sprintf("daemon: {deaths: %s}\n", map[bool]string{true: "on", false: "off"}[on])))
		cmd := exec.Command("sleep", "100")
		p := stage.Start(t, cmd)
		require.NoError(t, unix.Kill(cmd.Process.Pid, unix.SIGKILL))
		p.Wait()
		pid := fmt.Sprint(cmd.Process.Pid)
		if !on {
			require.Equal(t, i.Lineage("why", pid).ProcessState.ExitCode(), api.ExitNotFound)
			continue
		}
		comm := string(require.ReadFile(t, "/proc/self/comm"))
		require.Contains(t, i.Must("why", pid).Out.String(), fmt.Sprintf("%s sleep — in no session", pid),
			fmt.Sprintf("killed by SIGKILL from %d %s", os.Getpid(), comm[:len(comm)-1]))
		why := stage.Query[api.Why](i, "why", pid)
		require.Equal(t, i.Lineage("why", why.Process.Ref.String()+"0").ProcessState.ExitCode(), api.ExitNotFound)
	}
}
