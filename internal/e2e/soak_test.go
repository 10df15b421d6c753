//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Forks without end, deep chains and sessions one after the other leave nothing behind:
// the kernel has only live processes. Memory stays as after the first third, no ancestor of a
// live process is forgotten, and no limit is reached silently.
func TestSoak(t *testing.T) {
	const grows = 32 << 20 // bytes between two garbage collections; for 5 million forks, 10 each
	forks := stage.FromEnv(t, "LNGTEST_SOAK", 30000)
	depth := stage.FromEnv(t, "LNGTEST_DEPTH", 300)
	sessions := stage.FromEnv(t, "LNGTEST_SESSIONS", 20)
	i := stage.New(t)
	daemon := i.Daemon()
	kernel := kernelSideOf(i)
	deep := stage.NewMarker(t, i.Dir)
	chain := i.Start([]string{"run", "-q", "--name", "deep", "--", stage.Program("chain"), fmt.Sprint(depth)},
		append(deep.Env(), "LNGTEST_SECONDS=10800")) // a long soak takes more than an hour
	deep.Ready()
	require.NoError(t, unix.Kill(i.Session("deep").Root.PID, unix.SIGUSR1))
	var last int
	i.Agrees("chain", func() error {
		tree := stage.Query[api.Tree](i, "tree", "deep")
		if len(tree.Nodes) != depth+1 {
			return fmt.Errorf("%d processes, want %d", len(tree.Nodes), depth+1)
		}
		for _, n := range tree.Nodes {
			if len(n.Children) == 0 {
				last = n.PID
			}
		}
		return nil
	})

	// Only the chain, protected processes, and the chain's owner.
	var living map[string]int
	i.Agrees("kernel side", func() (err error) {
		living, err = kernel.entries()
		if err == nil && (living["sessions"] != 1 || living["claims"] != 0) {
			err = fmt.Errorf("entries %v", living)
		}
		return err
	})

	degraded := i.Status().Degraded
	storms(i, "first", 10000) // fills what is bounded: the ring, the ended sessions, the heap
	total := 0
	var thirds [3]footprint
	for n := range thirds {
		total += storms(i, fmt.Sprintf("storm-%d", n), forks/3)
		for range sessions / 3 {
			i.Must("run", "-q", "--", "true")
		}
		i.Agrees("kernel side", func() error {
			left, err := kernel.entries()
			for kind, n := range left {
				if n > living[kind] { // fewer: what had died before is reaped
					err = fmt.Errorf("entries %v, before the storms %v", left, living)
				}
			}
			return err
		})
		thirds[n] = footprintOf(i, kernel, daemon.Process.Pid)
		t.Logf("figure: after %d forks: %v", total, thirds[n])
	}
	early, late := thirds[0], thirds[2]
	// One or two connections of the commands may still be open.
	if late.open > early.open+4 || late.kernel != early.kernel || late.resident > early.resident+grows {
		t.Errorf("grown: %v after a third, %v in the end", early, late)
	}
	var edges int
	i.Agrees("ancestry", func() error {
		why := stage.Query[api.Why](i, "why", fmt.Sprint(last))
		edges = len(why.Edges)
		if edges < min(depth, 1024) || why.Edges[edges-1].Kind != "root" {
			return fmt.Errorf("%d edges of a chain of %d", edges, depth)
		}
		return nil
	})
	st := i.Status()
	for _, name := range []string{"enter_failed", "live_drift", "too_deep", "delete_failed", "stale_entries"} {
		if st.Counters[name] != 0 {
			t.Errorf("%s is %d", name, st.Counters[name])
		}
	}
	if !slices.Equal(st.Degraded, degraded) {
		t.Errorf("degraded by now: %v, before: %v", st.Degraded, degraded)
	}
	if s := i.Session("deep"); s.Live < depth {
		t.Errorf("%d live of a chain of %d", s.Live, depth)
	}
	i.Finish(deep, chain, "--now", "deep")
	t.Logf("figure: %d forks, a chain of %d (%d edges told), %d sessions", total, depth, edges, sessions)
}

// storms makes this many vforks, 20,000 a second if the machine can, in one session
// after the other.
func storms(i *stage.Instance, name string, forks int) (total int) {
	const rate, seconds = 20000, 20
	most := 1 + 5*forks/(rate*seconds) // sessions, on a machine that is busy with other things
	for n := 0; total < forks && n < most; n++ {
		total += storm(i, fmt.Sprintf("%s-%d", name, n), rate, seconds, forks-total)
	}
	if total < forks {
		i.T.Errorf("%s: %d forks within %d s, want %d", name, total, most*seconds, forks)
	}
	return total
}

// storm makes this many vforks in their own session, and returns how many there were.
func storm(i *stage.Instance, name string, rate, seconds, forks int) int {
	m := stage.NewMarker(i.T, i.Dir)
	run := i.Start([]string{"run", "-q", "--name", name, "--",
		stage.Program("vforkstorm"), fmt.Sprint(rate), fmt.Sprint(seconds), "4", fmt.Sprint(forks)}, m.Env())
	m.Line("storm", 1)
	made := i.Session(name).Forks
	i.Finish(m, run, "--now", name)
	return made
}
