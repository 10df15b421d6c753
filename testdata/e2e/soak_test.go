//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/testdata/e2e/stage"
)

// Forks without end, deep chains and sessions one after the other leave nothing
// behind: memory stays where it was after the first round, no ancestor of the
// living is forgotten, and no limit is met in silence.
func TestSoak(t *testing.T) {
	const rate, longest = 20000, 50 // forks/s, seconds of one storm
	forks := stage.FromEnv(t, "LNGTEST_SOAK", 60000)
	depth := stage.FromEnv(t, "LNGTEST_DEPTH", 300)
	sessions := stage.FromEnv(t, "LNGTEST_SESSIONS", 20)
	i := stage.New(t)
	daemon := i.Daemon()
	deep := stage.NewMarker(t, i.Dir)
	chain := i.Start([]string{"run", "-q", "--name", "deep", "--", stage.Program("chain"), fmt.Sprint(depth)},
		append(deep.Env(), "LNGTEST_SECONDS=3600"))
	deep.Ready()
	if err := unix.Kill(i.Session("deep").Root.PID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
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

	var memory []int
	total := 0
	for round := range 3 {
		for left := max(forks/3/rate, 1); left > 0; left -= longest {
			total += storm(i, fmt.Sprintf("storm-%d-%d", round, left), rate, min(left, longest))
		}
		for range sessions / 3 {
			i.Must("run", "-q", "--", "true")
		}
		memory = append(memory, stage.Number(t, strings.TrimSuffix(stage.ProcStatus(daemon.Process.Pid, "VmRSS"), " kB"))>>10)
	}
	// The first round fills what is bounded: the ring, the ended sessions, the heap.
	if grown := memory[2] - memory[1]; grown > 16 {
		t.Errorf("RSS of the daemon after each round: %v MiB", memory)
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
	for _, name := range []string{"enter_failed", "dead_failed", "live_drift", "too_deep", "delete_failed", "stale_entries"} {
		if st.Counters[name] != 0 {
			t.Errorf("%s is %d", name, st.Counters[name])
		}
	}
	if s := i.Session("deep"); s.Live < depth {
		t.Errorf("%d live of a chain of %d", s.Live, depth)
	}
	i.End("--now", "deep")
	deep.MustBeGone()
	chain.Wait()
	t.Logf("figure: %d forks, a chain of %d (%d edges told), %d sessions: RSS %v MiB after each third", total, depth, edges, sessions, memory)
}

// storm is so many vforks a second in a session of their own, and how many there were.
func storm(i *stage.Instance, name string, rate, seconds int) int {
	m := stage.NewMarker(i.T, i.Dir)
	run := i.Start([]string{"run", "-q", "--name", name, "--", stage.Program("vforkstorm"), fmt.Sprint(rate), fmt.Sprint(seconds), "4"},
		append(m.Env(), "LNGTEST_SECONDS=3600"))
	m.Ready()
	m.Wait("end of the storm", stormOver(m, time.Duration(seconds)*time.Second))
	forks := i.Session(name).Forks
	i.End("--now", name)
	m.MustBeGone()
	run.Wait()
	return forks
}
