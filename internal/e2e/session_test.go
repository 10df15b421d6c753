//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// Two daemonised sleeps outlive their shell: run names them, ends them, and returns the
// shell's exit code.
func TestHold1LeftoversEndWithTheRoot(t *testing.T) {
	i := stage.New(t) // run starts the daemon
	if require.Slowed(1) > 1 {
		i.Daemon() // on an emulated machine the start takes longer than run waits
	}
	m := stage.NewMarker(t, i.Dir)
	const grace, shell = 5 * time.Second, 200 * time.Millisecond
	slack := require.Slowed(time.Second)
	script := fmt.Sprintf(`exec 9>%s; (setsid sleep 300 &) ; (setsid sh -c "sleep 301 & exit" &) ; sleep 0.2`, m.Path)

	p := i.Start([]string{"run", "--", "sh", "-c", script}, nil).Wait()
	m.MustBeGone()
	if p.Code() != 0 || p.Out.Len() != 0 {
		t.Errorf("want exit 0 and nothing on stdout: %v", p)
	}
	if p.Took > shell+grace+slack {
		t.Errorf("run took %v", p.Took)
	}
	require.Contains(t, p.Err.String(), "sleep 300", "sleep 301", "SIGTERM")
	t.Logf("figure: run with two leftovers: %v", p.Took.Round(time.Millisecond))
}

// What other commands see of a live daemonised grandchild: its session, its dead
// creator, the evidence, and its current parent.
func TestHold2SeenFromOutside(t *testing.T) {
	for _, tt := range []struct {
		name, flag string
		byRun      bool
	}{
		{"subreaper", "--subreaper=true", true},
		{"no subreaper", "--subreaper=false", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := stage.NewDaemon(t)
			m := stage.NewMarker(t, i.Dir)
			run := i.Run(m, []string{"--name", "seen", tt.flag}, "daemonise", "clear", "stay")
			var pid, middle int
			for p, creator := range m.Members(1) {
				pid, middle = p, creator
			}
			m.Ready()
			parent := stage.Number(t, stage.ProcStatus(pid, "PPid"))
			if byRun := parent == run.Process.Pid; byRun != tt.byRun {
				t.Fatalf("the kernel's parent is %d, run is %d", parent, run.Process.Pid)
			}

			var root int
			i.Agrees("ls", func() error {
				s := i.Session("seen")
				if s.State != "active" || s.Live != 2 || s.Root == nil || s.Orphans != 1 {
					return fmt.Errorf("%+v, want 2 live and 1 orphan", s)
				}
				root = s.Root.PID
				return nil
			})
			i.Agrees("tree", func() error {
				return lookAtTree(stage.Query[api.Tree](i, "tree", "seen"), pid, middle, root)
			})
			i.Agrees("why", func() error {
				return lookAtWhy(stage.Query[api.Why](i, "why", fmt.Sprint(pid)), "seen", pid, middle, root, parent)
			})

			i.Finish(m, run, "seen")
		})
	}
}

func lookAtTree(tree *api.Tree, pid, middle, root int) error {
	nodes := stage.NodesOf(tree)
	if len(tree.Roots) != 1 || tree.Roots[0].PID != root {
		return fmt.Errorf("roots %v, want %d", tree.Roots, root)
	}
	for p, want := range map[int]struct {
		state   api.ProcessState
		creator int
	}{pid: {"live", middle}, middle: {"exited", root}} {
		n, ok := nodes[p]
		if !ok || n.State != want.state || n.Creator == nil || n.Creator.PID != want.creator {
			return fmt.Errorf("%d is %+v, want %s by %d", p, n, want.state, want.creator)
		}
	}
	if !nodes[pid].Orphan {
		return fmt.Errorf("%d is no orphan", pid)
	}
	return nil
}

func lookAtWhy(why *api.Why, name string, pid, middle, root, parent int) error {
	if why.Session == nil || why.Session.Name != name {
		return fmt.Errorf("session %+v, want %s", why.Session, name)
	}
	if why.Parent == nil || why.Parent.PID != parent {
		return fmt.Errorf("present parent %+v, want %d", why.Parent, parent)
	}
	var chain []int
	for _, e := range why.Edges {
		chain = append(chain, e.Child.PID)
		if e.Evidence.Kind == "" || e.Evidence.Confidence != "strong" {
			return fmt.Errorf("evidence of %d: %+v", e.Child.PID, e.Evidence)
		}
		if e.Child.PID == pid && (e.Creator == nil || e.Creator.PID != middle || e.Creator.Alive) {
			return fmt.Errorf("creator %+v, want the dead %d", e.Creator, middle)
		}
	}
	if want := []int{pid, middle, root}; !slices.Equal(chain, want) {
		return fmt.Errorf("edges %v, want %v", chain, want)
	}
	return nil
}

// The death of run, by SIGKILL too, ends its session.
func TestHold3OwnerKilled(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--grace", "0s"}, "daemonise", "clear", "stay")
	m.Members(1)
	m.Ready()
	require.NoError(t, run.Process.Kill())
	m.Gone()
	run.Wait()
}

// With the daemon dead and run stopped, only the kernel can end the session when its
// root dies.
func TestHold3KernelEndsAlone(t *testing.T) {
	i := stage.New(t)
	daemon := i.Daemon()
	tracertest.NeedsLevel(t, 4, i.Status().Level)
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--name", "alone", "--grace", "0s"}, "daemonise", "clear", "stay")
	m.Members(1)
	m.Ready()
	root := i.Session("alone").Root.PID

	require.NoError(t, daemon.Process.Kill())
	daemon.Wait()
	for _, s := range []struct {
		pid int
		sig unix.Signal
	}{{run.Process.Pid, unix.SIGSTOP}, {root, unix.SIGKILL}} {
		if err := unix.Kill(s.pid, s.sig); err != nil {
			t.Fatalf("kill %d: %v", s.pid, err)
		}
	}
	m.Gone()
	if i.Version() != nil {
		t.Error("a daemon answers: it may have ended the session")
	}
	require.NoError(t, unix.Kill(run.Process.Pid, unix.SIGCONT))
	run.Wait()
}
