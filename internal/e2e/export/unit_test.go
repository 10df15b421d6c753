//go:build linux

package export

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestCrash: in the environment of its unit, an exporter that crashes dies of a signal, and systemd starts it
// again.
func TestCrash(t *testing.T) {
	i := stage.NewDaemon(t)
	unit := string(require.ReadFile(t, filepath.Join(repository, "packaging/systemd/lineage-export.service.in")))
	of := func(key string) (all []string) {
		for line := range strings.Lines(unit) {
			if value, ok := strings.CutPrefix(line, key+"="); ok {
				all = append(all, strings.Fields(value)...)
			}
		}
		return all
	}
	require.Equal(t, strings.Join(of("LimitCORE"), " "), "0")
	state := filepath.Join(i.Dir, "state")
	command := i.Command([]string{"export", "--ocsf", filepath.Join(i.Dir, "ocsf.jsonl"), "--state", state}, of("Environment"))
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -c 0; exec "$@"`, "sh"}, command.Args...)...)
	cmd.Env = command.Env
	x := follows(i, stage.Start(t, cmd), filepath.Join(state, "ocsf.cursor"))
	require.NoError(t, x.Process.Signal(syscall.SIGABRT)) // which the runtime takes as it takes a panic
	x.Wait()
	status := x.ProcessState.Sys().(syscall.WaitStatus)
	if status.Exited() && slices.Contains(of("RestartPreventExitStatus"), strconv.Itoa(status.ExitStatus())) {
		t.Errorf("exit code %d: systemd would not start it again", status.ExitStatus())
	}
	require.Equal(t, status.Signal(), syscall.SIGABRT)
}
