//go:build linux

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Eight processes that fork a successor and exit without pause: nobody of them
// is there when end returns.
func TestHold4Hoppers(t *testing.T) {
	i := newDaemon(t)
	n := rounds(t)
	var forks, slowest int
	var total time.Duration
	for round := range n {
		m := newMarker(t, i.dir)
		name := fmt.Sprintf("hop-%d", round)
		run := i.run(m, []string{"--name", name}, "hop", "8", "8")
		m.ready()
		end := i.end("--now", name)
		m.mustBeGone()
		run.wait()
		if t.Failed() {
			t.Fatalf("round %d of %d: %v", round+1, n, end)
		}
		forks += i.record(name).Forks
		total += end.took
		slowest = max(slowest, int(end.took.Milliseconds()))
	}
	t.Logf("figure: %d of %d rounds left 0; %d forks seen; end took %v on average, %d ms at most",
		n, n, forks, (total / time.Duration(n)).Round(time.Millisecond), slowest)
}

func TestHold4LeaderHasExited(t *testing.T) {
	i := newDaemon(t)
	m := newMarker(t, i.dir)
	run := i.run(m, []string{"--name", "leaderless"}, "zombieleader")
	m.ready()
	if s := i.session("leaderless"); s.Live != 1 {
		t.Errorf("live %d, want 1: only the leader has exited", s.Live)
	}
	i.end("--now", "leaderless")
	m.mustBeGone()
	run.wait()
}

// Every way to make a process: its creator is known and it ends with the rest.
func TestHold5EveryWayToFork(t *testing.T) {
	i := newDaemon(t)
	for _, tt := range []struct {
		program string
		args    string
		members int // that tell their creator
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
			i := i.in(t)
			m := newMarker(t, i.dir)
			run := i.run(m, []string{"--name", "way", "--grace", "1s"}, tt.program, strings.Fields(tt.args)...)
			creators := m.members(tt.members)

			isRoot := tt.program == "threadexec" || tt.program == "ignoreterm"
			i.agrees("tree", func() error {
				nodes := nodesOf(query[api.Tree](i, "tree", "way"))
				for _, pid := range m.holders() {
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
			i.end("way")
			m.mustBeGone()
			run.wait()
		})
	}
}

// Strangers with the same names, and one that has the PID of a dead member, are
// never signalled.
func TestHold6Bystanders(t *testing.T) {
	i := newDaemon(t)
	n := rounds(t)
	var strangers []*bystander
	for _, comm := range []string{"lngtest-gone", "sleep"} {
		strangers = append(strangers, newBystander(i, comm, 0))
	}
	for round := range n {
		m := newMarker(t, i.dir)
		name := fmt.Sprintf("by-%d", round)
		run := i.run(m, []string{"--name", name}, "gone")
		m.members(1)
		m.ready()
		recycled := newBystander(i, "lngtest-gone", number(t, m.lines("gone")[0][0]))
		i.end("--now", name)
		m.mustBeGone()
		run.wait()
		i.end("--now", name) // a repeat has nobody to send to
		recycled.mustBeUntouched()
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, s := range strangers {
		s.mustBeUntouched()
	}
	t.Logf("figure: %d ends, %d recycled PIDs, no bystander signalled", 2*n, n)
}

// A bystander is outside every session and counts the signals that it gets.
type bystander struct {
	*process
	m     *marker
	stdin interface{ Close() error }
}

// newBystander starts one that looks like a member; with a PID it has that one.
func newBystander(i *instance, comm string, pid int) *bystander {
	i.t.Helper()
	m := newMarker(i.t, i.dir)
	cmd := exec.Command(program("bystander"), comm)
	cmd.Args[0] = program("gone")
	if pid != 0 {
		cmd.Args = append(cmd.Args, fmt.Sprint(pid))
	}
	cmd.Env = append(m.env(), "LNGTEST_SECONDS=900")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		i.t.Fatal(err)
	}
	b := &bystander{process: start(i.t, cmd), m: m, stdin: stdin}
	m.wait("bystander", func(bool) bool { return len(m.lines("ready")) > 0 || b.exited() })
	if b.exited() {
		i.t.Fatalf("bystander: %v", b.process)
	}
	if got := m.members(1); pid != 0 {
		if _, ok := got[pid]; !ok {
			i.t.Fatalf("the bystander runs as %v, want %d", got, pid)
		}
	}
	return b
}

func (b *bystander) mustBeUntouched() {
	b.t.Helper()
	if !b.m.drain() {
		b.t.Error("the bystander is dead")
		return
	}
	b.stdin.Close()
	if got := b.m.line("signals", 1); got[0] != "0" {
		b.t.Errorf("the bystander got %s signals", got[0])
	}
	b.m.gone()
	b.wait()
}
