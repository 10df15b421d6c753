//go:build linux

package escapes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// script writes what a member runs to ask for work.
func (x *trial) script(text string) string {
	x.t.Helper()
	path := filepath.Join(x.Dir, x.name+".sh")
	require.NoError(x.t, os.WriteFile(path, []byte(text+"\n"), 0o644))
	return path
}

// newTmux starts a tmux server that no session knows of, and returns a script that
// opens a window in it.
func newTmux(options string) func(*trial) string {
	return func(x *trial) string {
		x.t.Helper()
		stage.Need(x.t, "test-brokers", "tmux")
		tmux := []string{"tmux", "-f", "/dev/null", "-S", filepath.Join(x.Dir, x.name+".tmux")}
		run := func(args ...string) error { return exec.Command(tmux[0], append(tmux[1:], args...)...).Run() }
		require.NoError(x.t, run("new-session", "-d", "sleep 120"))
		x.t.Cleanup(func() {
			if err := run("kill-server"); err != nil {
				x.t.Errorf("the server of before is gone: %v", err)
			}
		})
		return x.script(fmt.Sprintf(`exec tmux -S %s new-window -d -e LNGTEST_MARKER="$LNGTEST_MARKER" -e LNGTEST_SECONDS=60%s %s setsid`,
			tmux[4], options, stage.Program("detach")))
	}
}

// newJob starts an atd, and returns a script that submits a job to it.
func newJob(x *trial) string {
	x.t.Helper()
	stage.Need(x.t, "test-brokers", "at", "atd")
	require.NoError(x.t, stage.PrivateSpools())
	stage.Start(x.t, exec.Command("atd", "-f"))
	x.Until("atd", func() bool { _, err := os.Stat("/run/atd.pid"); return err == nil })
	return x.script("echo exec " + stage.Program("detach") + " setsid | at now 2>/dev/null")
}

// brokered: the work that the member asked for is attributed to its session, by that
// evidence, before the end.
func brokered(broker, source string) func(*trial) func() {
	return func(x *trial) func() {
		x.Until(broker+" found by "+source, func() bool {
			for _, b := range x.Record(x.name).Delegated {
				if b.State == "attributed" && b.Broker == broker && b.Evidence.Source == source {
					return b.Ends
				}
			}
			return false
		})
		return func() {
			if x.beside {
				x.m.Gone()
			}
			if len(x.report.Delegated) != 1 {
				x.t.Errorf("the receipt does not name what %s was asked for: %s", broker, x.inShort())
			}
		}
	}
}

// lastUser: a server that two sessions use outlives the session that started it, with
// the workers of both, and ends with the other.
func lastUser(x *trial) func() {
	server := stage.Number(x.t, x.m.Line("server", 1)[0])
	x.Until("server in a session of its own", func() bool {
		why := stage.Query[api.Why](x.Instance, "why", fmt.Sprint(server))
		return why.Session != nil && why.Session.Shared == "lngtest"
	})
	name := x.name + "-other"
	m := stage.NewMarker(x.t, x.Dir)
	other := x.Instance.Start([]string{"run", "--name", name, "--grace", "0s", "--subreaper=false", "--", stage.Program("served"), filepath.Join(x.Dir, "shared")}, m.Env())
	x.m.Members(2)
	return func() {
		if alive := x.survivors(); len(alive) != 3 {
			x.t.Errorf("a server in use, and its workers: %v", alive)
		}
		x.End(name)
		m.Gone()
		x.m.Gone()
		other.Wait()
	}
}
