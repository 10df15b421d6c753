//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestWhoKilled kills one member and stops another, and reads everywhere who did it: while the
// session lives, and in the history after a restart.
func TestWhoKilled(t *testing.T) {
	i := stage.New(t)
	d := i.Daemon()
	i.Start([]string{"run", "--name", "victims", "--grace", "0s", "--", "sh", "-c", "sleep 61 & sleep 62 & wait; sleep 63"}, nil)
	i.Until("session", func() bool { return len(stage.Query[api.Sessions](i, "ls").Items) == 1 })
	member := func(seconds string) *api.Node {
		nodes := i.Tree("victims").Nodes
		at := slices.IndexFunc(nodes, func(n api.Node) bool { return slices.Equal(n.Argv, []string{"sleep", seconds}) })
		if at < 0 {
			return nil
		}
		return &nodes[at]
	}
	i.Until("both members", func() bool { return member("61") != nil && member("62") != nil })
	killed, stopped := member("61").PID, member("62").PID
	require.NoError(t, unix.Kill(killed, unix.SIGTERM), unix.Kill(stopped, unix.SIGSTOP))
	i.Until("the member that is stopped", func() bool { return member("62").Stopped != nil })
	i.Until("the death of the other one", func() bool { return member("61").State == api.StateExited })
	from := fmt.Sprintf(" from %d ", os.Getpid())
	for _, want := range []struct {
		what string
		args []string
	}{
		{"stopped by SIGSTOP" + from, []string{"tree", "victims"}},
		{"stopped by SIGSTOP" + from, []string{"why", fmt.Sprint(stopped)}},
		{"killed by SIGTERM" + from, []string{"events", "--since", "10m", "--until", "0s", "--type", "exit"}},
		{"SIGSTOP" + from, []string{"events", "--since", "10m", "--until", "0s", "--type", "stop"}},
	} {
		require.Contains(t, i.Must(want.args...).Out.String(), want.what)
	}
	i.Must("end", "victims", "--now", "--yes")
	i.Until("the last deaths", func() bool {
		return strings.Contains(i.Must("history", "victims", "--all").Out.String(), "killed by SIGKILL by lineage")
	})
	require.NoError(t, d.Process.Signal(unix.SIGTERM)) // it writes what it knows
	d.Wait()
	i.Daemon()
	require.Contains(t, i.Must("history", "victims", "--all").Out.String(), "killed by SIGTERM"+from, "killed by SIGKILL by lineage")
	require.Contains(t, i.Must("events", "--since", "10m", "--until", "0s", "--type", "exit", "--session", "victims").Out.String(), "killed by SIGTERM"+from)
}
