//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// container runs args as PID 1 of a PID namespace, without daemon or session, and
// returns its PID here.
func container(i *stage.Instance, m *stage.Marker, args ...string) (*stage.Process, int) {
	i.T.Helper()
	cmd := exec.Command("unshare", append([]string{"--fork", "--pid", "--mount-proc", "--kill-child", "--"}, args...)...)
	cmd.Env = append(os.Environ(), m.Env()...)
	cmd.Dir = i.Dir
	p := stage.Start(i.T, cmd)
	m.Ready()
	children := stage.Children(p.Process.Pid)
	if len(children) != 1 {
		i.T.Fatalf("unshare has the children %v, want one", children)
	}
	return p, children[0]
}

// An application that is PID 1 accumulates the zombies of its container's orphans.
// Under init they are reaped, and children that it has not waited for stay its own,
// with their exit codes.
func TestInitReapsUnderAnApplication(t *testing.T) {
	const children, orphans = 100, 500
	app := []string{stage.Program("codes"), fmt.Sprint(children), fmt.Sprint(orphans)}

	t.Run("without", func(t *testing.T) {
		i := stage.New(t)
		p, one := container(i, stage.NewMarker(t, i.Dir), app...)
		i.Until("all orphans are zombies of PID 1", func() bool { return len(stage.Children(one)) == children+orphans })
		unix.Kill(one, unix.SIGTERM)
		if p.Wait(); p.Code() != 0 {
			t.Error(p)
		}
	})
	t.Run("with", func(t *testing.T) {
		i := stage.New(t)
		file := filepath.Join(i.Dir, "receipt.json")
		p, one := container(i, stage.NewMarker(t, i.Dir), append([]string{stage.Lineage, "init", "--report", file, "--"}, app...)...)
		i.Until("init has one child", func() bool { return len(stage.Children(one)) == 1 })
		if n := len(stage.Children(stage.Children(one)[0])); n != children {
			t.Errorf("the application has %d children, want its own %d", n, children)
		}
		unix.Kill(one, unix.SIGTERM)
		if p.Wait(); p.Code() != 0 || p.Err.Len() != 0 {
			t.Error(p)
		}
		r := stage.Report(t, file)
		if r.Verdict != "clean" || !r.ConfirmedEmpty || r.Exited != orphans+1 || len(r.Processes) != 0 {
			t.Errorf("receipt %+v", r)
		}
	})
}

// Everything that the command leaves in the container is ended: daemons, processes that
// ignore signals, stopped ones, and a container inside.
func TestInitEndsTheContainer(t *testing.T) {
	for _, name := range []string{"daemonise", "ignoreterm", "stopped", "detach", "pidns", "zombieleader"} {
		t.Run(name, func(t *testing.T) {
			i := stage.New(t)
			m := stage.NewMarker(t, i.Dir)
			file := filepath.Join(i.Dir, "receipt.json")
			script := `"$@" & read -r x; exit 3`
			cmd := exec.Command("unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--",
				stage.Lineage, "init", "--grace", "200ms", "--report", file, "--", "bash", "-c", script, "bash", stage.Program(name))
			cmd.Env = append(os.Environ(), m.Env()...)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			p := stage.Start(t, cmd)
			m.Ready()
			in.Close()
			if p.Wait(); p.Code() != 3 {
				t.Error(p)
			}
			m.MustBeGone()
			if r := stage.Report(t, file); r.Verdict != "clean" || !r.ConfirmedEmpty || len(r.Processes) == 0 {
				t.Errorf("receipt %+v", r)
			}
		})
	}
}
