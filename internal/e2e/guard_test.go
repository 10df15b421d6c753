//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestPkill: an agent's pkill matches its host (gptme #768), a daemon and its siblings (multica #8306), and
// itself (URL-Shortener-App #532). With the policy's guard it reaches none of them.
func TestPkill(t *testing.T) {
	i := stage.New(t)
	i.Daemon("--policy", i.Policy("mode: enforce\nsignals: session\n"))
	const only = "signals that leave a session are only recorded: "
	if s := i.Status(); s.RefusesSignals == "none" {
		// The kernel cannot refuse: the operator and the user are told.
		require.Contains(t, strings.Join(s.Degraded, "\n"), only)
		require.Contains(t, i.Must("run", "true").Err.String(), "lineage: run: "+only)
		t.Skip("no program here refuses signals")
	}
	// The pattern of a pkill matches the processes of the scene, and not the agent that has it in its command line.
	token := fmt.Sprintf("lngtest-guard-%d", os.Getpid())
	pkill := fmt.Sprintf("pkill -TERM -f '%s[%s]-'; echo pkill $?", token[:len(token)-1], token[len(token)-1:])
	named := func(what, script string, args ...string) []string {
		return slices.Concat([]string{"sh", "-c", script, token + "-" + what}, args)
	}
	start := func(argv ...string) *stage.Process {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "LINEAGE_SOCKET="+i.Socket, "PKILL="+pkill)
		return stage.Start(t, cmd)
	}
	run := []string{stage.Lineage, "run", "-q", "--grace", "0s", "--name"}
	const waits = `read x <>"$1"` // without a child
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	daemon := start(named("daemon", waits, fifo)...)
	sibling := start(slices.Concat(run, []string{"sibling", "--"}, named("sibling", waits, fifo))...)
	i.Until("sibling", func() bool {
		s := stage.Query[api.Sessions](i, "ls").Items
		return len(s) == 1 && s[0].Root != nil && len(s[0].Root.Argv) > 3 && strings.HasPrefix(s[0].Root.Argv[3], token)
	})
	agent := slices.Concat(run, []string{"agent", "--", "sh", "-c", `eval "$PKILL"`})
	require.Equal(t, start(named("host", `"$@"; echo goes on`, agent...)...).Wait().Out.String(), "pkill 1\ngoes on\n")
	// An agent has its prompt in its command line; the tool is in a session inside the agent's.
	tool := strings.Join(run, " ") + ` inner -- sh -c 'eval "$PKILL"'; echo goes on`
	inner := slices.Concat(run, []string{"outer", "--"}, named("prompt", tool))
	require.Equal(t, start(inner...).Wait().Out.String(), "pkill 1\ngoes on\n")
	if daemon.Exited() || sibling.Exited() {
		t.Errorf("daemon %v, sibling %v", daemon, sibling)
	}
	i.Must("end", "sibling", "--now", "--yes")
	sibling.Wait()
	crossings := i.Must("events", "--since", "10m", "--until", "0s", "--type", "crossing")
	require.Contains(t, crossings.Out.String(), ", refused")
}
