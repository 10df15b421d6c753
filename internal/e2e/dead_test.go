//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// deadMembers are those of the program "bomb 8": its root, the leader of a group, and eight children.
const deadMembers = 10

// TestDeadDaemon: the daemon and the root of a session die at the same moment, and the next daemon
// starts when the unit would start it. How long the members live then is measured against the
// kernel's own end of the same tree, and only reported: the machine may be emulated.
func TestDeadDaemon(t *testing.T) {
	i := stage.New(t)
	daemon := i.Daemon()
	rounds := stage.FromEnv(t, "LNGTEST_ROUNDS", 2)
	var ratios []float64
	by := ""
	for n := range rounds {
		name := fmt.Sprint("tree", n)
		m := stage.NewMarker(t, i.Dir)
		run := i.Run(m, []string{"--name", name, "--grace", "0s"}, "bomb", "8")
		m.Ready()
		x := i.Session(name)
		require.Equal(t, x.Live, deadMembers)
		// It would start a daemon, too, and say how the session ended.
		require.NoError(t, unix.Kill(run.Process.Pid, unix.SIGSTOP))
		began := time.Now()
		require.NoError(t, errors.Join(daemon.Process.Kill(), unix.Kill(x.Root.PID, unix.SIGKILL)))
		next := make(chan *stage.Process, 1)
		time.AfterFunc(100*time.Millisecond, func() { // RestartSec= of the unit
			next <- i.Start([]string{"daemon", "--socket", i.Socket}, nil)
		})
		m.Gone()
		took := time.Since(began)
		daemon = <-next
		i.Until("daemon that answers", func() bool { return i.Version() != nil })
		_ = unix.Kill(run.Process.Pid, unix.SIGCONT) // perhaps the daemon did it, and it has exited
		run.Wait()
		var kernel time.Duration
		kernel, by = endOfTree(t, i)
		ratios = append(ratios, float64(took)/float64(kernel))
	}
	daemon.Stop()
	i.Daemon() // one that stops as it should
	slices.Sort(ratios)
	t.Logf("figure: %d members, killed with their daemon: ended in %d of %d rounds, in %.0f times what %s takes",
		deadMembers, len(ratios), rounds, ratios[len(ratios)/2], by)
}

// endOfTree is how long the kernel takes to end such a tree: by cgroup.kill, or before 5.14 by
// SIGKILL to each process.
func endOfTree(t *testing.T, i *stage.Instance) (took time.Duration, by string) {
	t.Helper()
	m := stage.NewMarker(t, i.Dir)
	cmd := exec.Command(stage.Program("bomb"), "8")
	cmd.Env = append(os.Environ(), m.Env()...)
	kill := ""
	if root := stage.Mounted("cgroup2", ""); root != "" {
		dir, err := os.MkdirTemp(root, "lngtest-")
		require.NoError(t, err)
		defer func() {
			i.Until("empty cgroup", func() bool { return os.Remove(dir) == nil })
		}()
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
			kill = filepath.Join(dir, "cgroup.kill")
			cmd = exec.Command("sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir, stage.Program("bomb"), "8")
			cmd.Env = append(os.Environ(), m.Env()...)
		}
	}
	p := stage.Start(t, cmd)
	m.Ready()
	all := m.Holders()
	require.Equal(t, len(all), deadMembers)
	began := time.Now()
	if kill != "" {
		by = "cgroup.kill"
		require.NoError(t, os.WriteFile(kill, []byte("1"), 0))
	} else {
		by = "kill of each"
		for _, pid := range all {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	m.Gone()
	took = time.Since(began)
	p.Wait()
	return took, by
}
