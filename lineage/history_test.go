package lineage

import (
	"fmt"
	"slices"
	"testing"
)

func TestHistoryIsBounded(t *testing.T) {
	g := New(Options{History: 10})
	apply(g, []Event{root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 20, 300), exit(20, 310), reaped(20, 311)})
	for pid := uint32(100); pid < 200; pid++ {
		at := uint64(pid) * 10
		apply(g, []Event{fork(pid, 10, at), exit(pid, at+1), reaped(pid, at+2)})
	}
	equal(t, "history", g.Stats().History, 10)
	_, first := g.Node(id(189))
	_, last := g.Node(id(190))
	equal(t, "oldest gone", first, false)
	equal(t, "youngest there", last, true)
	equal(t, "ancestry", path(g, id(30)), "30<fork<20 20<fork<10 10<root<9")
}

// Children are forgotten before their creators.
func TestHistoryKeepsAncestors(t *testing.T) {
	g := New(Options{History: 3})
	apply(g, []Event{root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 20, 300), fork(40, 30, 400),
		exit(20, 500), reaped(20, 501), exit(30, 502), reaped(30, 503)})
	equal(t, "kept", g.Stats().Kept, 2+1) // and the launcher
	apply(g, []Event{exit(40, 504), reaped(40, 505)})
	equal(t, "ancestry", path(g, id(40)), "40<fork<30 30<fork<20 20<fork<10 10<root<9")
	apply(g, []Event{fork(50, 10, 600), exit(50, 601), reaped(50, 602)})
	_, ok := g.Node(id(40))
	equal(t, "the child goes first", ok, false)
	equal(t, "ancestry", path(g, id(30)), "30<fork<20 20<fork<10 10<root<9")
}

// Events for processes long forgotten stay within the history.
func TestLateEventsDoNotLeak(t *testing.T) {
	g := New(Options{History: 100})
	for pid := uint32(1000); pid < 5000; pid++ {
		at := uint64(pid) * 10
		apply(g, []Event{exit(pid, at), reparent(pid, pid-1, 1, at-1)})
		if pid%2 == 0 {
			apply(g, []Event{reaped(pid, at+1)})
		}
	}
	equal(t, "nodes", g.Stats().Nodes, 100)
	sound(t, g)
}

// Many long command lines shorten the history.
func TestTextIsBounded(t *testing.T) {
	g := New(Options{Text: 1 << 20})
	apply(g, []Event{root(10, 9, 1, 100)})
	for pid := uint32(1000); pid < 3000; pid++ {
		at := uint64(pid) * 10
		apply(g, []Event{fork(pid, 10, at), execs(pid, at+1, "cc", fmt.Sprintf("%04d%04000d", pid, 0)), exit(pid, at+2), reaped(pid, at+3)})
		if g.images.share.Used() > 1<<20 {
			t.Fatalf("%d bytes of text", g.images.share.Used())
		}
	}
	if h := g.Stats().History; h < 200 {
		t.Errorf("%d remembered", h)
	}
}

// hops makes a chain in which each process forks the next one and exits. PIDs wrap
// around.
func hops(g *Graph, last ID, from uint64, n int) ID {
	for i := range n {
		at := from + uint64(i)*10
		child := ID{100 + uint32(i%30000), at}
		apply(g, []Event{
			{Type: Birth, Time: at, ID: child, Session: 1, Evidence: Fork, Creator: last, Parent: last, Looks: called("hop")},
			{Type: Exit, Time: at + 1, ID: last, Session: 1},
			{Type: Reaped, Time: at + 2, ID: last},
		})
		last = child
	}
	return last
}

func TestLongChainsAreCollapsed(t *testing.T) {
	const n = 1_000_000
	g := New(Options{})
	apply(g, []Event{root(10, 9, 1, 100)})
	last := hops(g, id(10), 1000, n)
	if s := g.Stats(); s.Nodes > 2*collapseMin {
		t.Fatalf("%+v", s)
	}
	edges := g.Ancestry(last)
	steps := 0
	for i, e := range edges {
		steps += 1 + int(e.Hops)
		if i > 0 && edges[i-1].Hops == 0 && edges[i-1].Creator != e.Child {
			t.Fatalf("edge %d does not follow: %+v, %+v", i, edges[i-1], e)
		}
	}
	equal(t, "steps", steps, n+1)
	equal(t, "last kind", edges[len(edges)-1].Kind, KindRoot)
	equal(t, "root", edges[len(edges)-1].Child, id(10))
	for i, e := range edges[:runEnd-1] {
		if e.Hops > 0 || edges[len(edges)-1-i].Hops > 0 {
			t.Fatalf("left out near an end: %d", i)
		}
	}
	equal(t, "session", known(t, g, last).Session, 1)
	equal(t, "rows", len(g.Tree(false, 1)), len(edges))
	sound(t, g)

	// The creator in memory beyond the gap is not the process that forked.
	gap := slices.IndexFunc(edges, func(e Edge) bool { return e.Hops > 0 })
	below, above := edges[gap].Child, edges[gap+1].Child
	g.Apply(&Event{Type: Exec, Time: above.Start + 1, ID: above, Session: 1, Looks: called("late")})
	equal(t, "command across the gap", g.Ancestry(last)[gap].CreatorComm, "hop")
	g.Apply(&Event{Type: Birth, Time: below.Start - 1, ID: below, Session: 1, Evidence: Fork, Creator: id(10)})
	equal(t, "gap after a birth that knows better", known(t, g, below).Hops, 0)
	end := []Event{{Type: Exit, Time: 1 << 40, ID: last, Session: 1}, {Type: Reaped, Time: 1<<40 + 1, ID: last}}
	apply(g, end)
	equal(t, "kept", g.Stats().Kept, 0)
}

// A branch in the chain is not a hop: a process with two remembered children stays.
func TestBranchesAreNotCollapsed(t *testing.T) {
	g := New(Options{})
	apply(g, []Event{root(10, 9, 1, 100)})
	branch := hops(g, id(10), 1000, 3000)
	a := Event{Type: Birth, Time: 1 << 30, ID: ID{40000, 1 << 30}, Session: 1, Evidence: Fork, Creator: branch, Parent: branch}
	b := a
	b.ID.PID++
	apply(g, []Event{a, b, {Type: Exit, Time: 1<<30 + 1, ID: branch, Session: 1}, {Type: Reaped, Time: 1<<30 + 2, ID: branch}})
	hops(g, a.ID, 1<<31, 3000)
	if g.Stats().Collapsed == 0 {
		t.Fatal("nothing was collapsed")
	}
	known(t, g, branch)
	edges := g.Ancestry(b.ID)
	equal(t, "creator", edges[0].Creator, branch)
	equal(t, "root", edges[len(edges)-1].Kind, KindRoot)
	sound(t, g)
}

// A zombie is still in the kernel and is never left out.
func TestZombiesAreNotCollapsed(t *testing.T) {
	g := New(Options{})
	apply(g, []Event{root(10, 9, 1, 100)})
	last := id(10)
	for i := range uint32(6000) {
		at := 1000 + uint64(i)*10
		child := ID{100 + i, at}
		apply(g, []Event{
			{Type: Birth, Time: at, ID: child, Session: 1, Evidence: Fork, Creator: last, Parent: last},
			{Type: Exit, Time: at + 1, ID: last, Session: 1},
		})
		if i%600 != 0 {
			apply(g, []Event{{Type: Reaped, Time: at + 2, ID: last}})
		}
		last = child
	}
	s := g.Stats()
	equal(t, "collapsed", s.Collapsed, 0)
	equal(t, "nodes", s.Nodes, 6002)
}

// T14: 5,000 deep, all live, killed from either end.
func TestDeepChain(t *testing.T) {
	const depth = 5000
	for _, down := range []bool{true, false} {
		g := New(Options{})
		apply(g, []Event{root(10, 9, 1, 100)})
		for i := uint32(11); i < 11+depth; i++ {
			apply(g, []Event{fork(i, i-1, uint64(i)*10)})
		}
		equal(t, "edges", len(g.Ancestry(id(10+depth))), depth+1)
		tree := g.Tree(false, 1)
		equal(t, "rows", len(tree), depth+1)
		equal(t, "depth", tree[depth].Depth, depth)
		for i := range uint32(depth + 1) {
			pid := 10 + i
			if !down {
				pid = 10 + depth - i
			}
			apply(g, []Event{exit(pid, uint64(1e6+i*2)), reaped(pid, uint64(1e6+i*2+1))})
		}
		s := g.Stats()
		equal(t, "live", s.Live, 0)
		equal(t, "kept", s.Kept, 0)
		sound(t, g)
	}
}

// Processes that run one command share its arguments: those of 16,384 processes with 4,095 empty
// ones each would take a gigabyte.
func TestArgumentsAreShared(t *testing.T) {
	g := New(Options{})
	apply(g, []Event{root(10, 9, 1, 100)})
	command := execs(10, 101, "sh")
	command.Argv = make([]byte, 4095)
	apply(g, []Event{command, fork(20, 10, 200), fork(30, 10, 300)})
	a, _ := g.Node(id(20))
	b, _ := g.Node(id(30))
	equal(t, "arguments", len(a.Argv), 4095)
	first := &a.Argv[0]
	for _, argv := range [][]string{a.Commands[0].Argv, b.Argv, b.Commands[0].Argv} {
		equal(t, "shared", &argv[0] == first, true)
		equal(t, "cannot grow", cap(argv), len(argv))
	}
	before := g.Stats().Bytes
	command.ID, command.Time, command.Argv = id(20), 201, make([]byte, 4000)
	apply(g, []Event{command})
	equal(t, "counted", g.Stats().Bytes-before >= 4000*16, true)
}
