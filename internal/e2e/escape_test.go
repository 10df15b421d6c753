//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// Eight processes that fork a successor and exit without pause: none is alive when end
// returns.
func TestHold4Hoppers(t *testing.T) {
	i := stage.NewDaemon(t)
	n := rounds(t)
	var forks, slowest int
	var total time.Duration
	for round := range n {
		m := stage.NewMarker(t, i.Dir)
		name := fmt.Sprintf("hop-%d", round)
		run := i.Run(m, []string{"--name", name}, "hop", "8", "8")
		m.Ready()
		end := i.End("--now", name)
		m.MustBeGone()
		run.Wait()
		if t.Failed() {
			t.Fatalf("round %d of %d: %v", round+1, n, end)
		}
		forks += i.Record(name).Forks
		total += end.Took
		slowest = max(slowest, int(end.Took.Milliseconds()))
	}
	t.Logf("figure: %d of %d rounds left 0; %d forks seen; end took %v on average, %d ms at most",
		n, n, forks, (total / time.Duration(n)).Round(time.Millisecond), slowest)
}

func TestHold4LeaderHasExited(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--name", "leaderless"}, "zombieleader")
	m.Ready()
	if s := i.Session("leaderless"); s.Live != 1 {
		t.Errorf("live %d, want 1: only the leader has exited", s.Live)
	}
	i.Finish(m, run, "--now", "leaderless")
}

// Every way to make a process: its creator is known and it ends with the rest.
func TestHold5EveryWayToFork(t *testing.T) {
	i := stage.NewDaemon(t)
	for _, tt := range []struct {
		program string
		args    string
		members int // that print their creator
	}{
		{"cloneparent", "1", 1},
		{"cloneparent", "3", 3},
		{"vforkexec", "", 1},
		{"vforkexec", "window", 1},
		{"spawn", "", 1},
		{"threadexec", "8", 1},
		{"threadfork", "", 1},
		{"threadfork", "leaderless", 1},
		{"daemonise", "clear stay", 1},
		{"stopped", "", 1},
		{"ignoreterm", "", 1},
	} {
		t.Run(strings.TrimSpace(tt.program+" "+tt.args), func(t *testing.T) {
			i := i.In(t)
			m := stage.NewMarker(t, i.Dir)
			run := i.Run(m, []string{"--name", "way", "--grace", "1s"}, tt.program, strings.Fields(tt.args)...)
			creators := m.Members(tt.members)

			isRoot := tt.program == "threadexec" || tt.program == "ignoreterm"
			i.Agrees("tree", func() error {
				nodes := stage.NodesOf(stage.Query[api.Tree](i, "tree", "way"))
				for _, pid := range m.Holders() {
					if nodes[pid].State != "live" {
						return fmt.Errorf("%d is alive, the tree has %+v", pid, nodes[pid])
					}
				}
				for pid, creator := range creators {
					n := nodes[pid]
					if !isRoot && (n.Creator == nil || n.Creator.PID != creator) {
						return fmt.Errorf("creator of %d is %+v, want %d", pid, n.Creator, creator)
					}
					if n.Evidence == nil || (n.Evidence.Kind == "root") != isRoot {
						return fmt.Errorf("evidence of %d: %+v", pid, n.Evidence)
					}
				}
				return nil
			})
			i.Finish(m, run, "way")
		})
	}
}

// Outsiders with the same names, and one that reuses the PID of a dead member, are
// never signalled.
func TestHold6Bystanders(t *testing.T) {
	i := stage.NewDaemon(t)
	n := rounds(t)
	var outsiders []*stage.Bystander
	for _, comm := range []string{"lngtest-gone", "sleep"} {
		outsiders = append(outsiders, stage.NewBystander(i, comm, 0))
	}
	for round := range n {
		m := stage.NewMarker(t, i.Dir)
		name := fmt.Sprintf("by-%d", round)
		run := i.Run(m, []string{"--name", name}, "gone")
		m.Members(1)
		m.Ready()
		recycled := stage.NewBystander(i, "lngtest-gone", stage.Number(t, m.Lines("gone")[0][0]))
		i.Finish(m, run, "--now", name)
		i.End("--now", name) // a repeat has no process to signal
		recycled.MustBeUntouched()
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, s := range outsiders {
		s.MustBeUntouched()
	}
	t.Logf("figure: %d ends, %d recycled PIDs, no bystander signalled", 2*n, n)
}
