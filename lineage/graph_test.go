package lineage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The vocabulary of the tests: processes are named by PID, and their start is 10 times
// the PID unless a test says otherwise.
func id(pid uint32) ID { return ID{pid, uint64(pid) * 10} }

func called(name string) Looks { return Looks{Comm: CommOf(name)} }

func root(pid, creator uint32, session SessionID, at uint64) Event {
	return Event{Type: Birth, Time: at, ID: id(pid), Session: session, Evidence: Root,
		Creator: id(creator), Parent: id(creator), Looks: called("agent")}
}

func fork(pid, creator uint32, at uint64) Event {
	return Event{Type: Birth, Time: at, ID: id(pid), Session: 1, Evidence: Fork,
		Creator: id(creator), Parent: id(creator), Looks: called("sh")}
}

func execs(pid uint32, at uint64, args ...string) Event {
	e := Event{Type: Exec, Time: at, ID: id(pid), Session: 1, Looks: called(args[0]), Exe: []byte("/bin/" + args[0])}
	for _, a := range args {
		e.Argv = append(append(e.Argv, a...), 0)
	}
	return e
}

func exit(pid uint32, at uint64) Event {
	return Event{Type: Exit, Time: at, ID: id(pid), Session: 1, Status: pid << 8, CPUTime: 5, MaxRSS: 6}
}

func reaped(pid uint32, at uint64) Event { return Event{Type: Reaped, Time: at, ID: id(pid)} }

func reparent(pid, from, to uint32, at uint64) Event {
	return Event{Type: Reparent, Time: at, ID: id(pid), From: id(from), Parent: id(to)}
}

func seen(pid, creator, parent uint32) Seen {
	return Seen{ID: id(pid), Session: 1, Since: id(pid).Start, Evidence: Fork, Creator: id(creator), Parent: id(parent), Looks: called("sh")}
}

func graph(events ...Event) *Graph {
	g := New(Options{})
	for i := range events {
		g.Apply(&events[i])
	}
	return g
}

// path renders an ancestry in short: "40<fork<30 30<root<20".
func path(g *Graph, of ID) string {
	s := ""
	for i, e := range g.Ancestry(of) {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%d<%s<%d", e.Child.PID, e.Kind, e.Creator.PID)
		if e.Hops > 0 {
			s += fmt.Sprintf("+%d", e.Hops)
		}
	}
	return s
}

func shape(g *Graph, all bool, sessions ...SessionID) string {
	s := ""
	for _, b := range g.Tree(all, sessions...) {
		s += fmt.Sprintf("%*s%d\n", b.Depth, "", b.ID.PID)
	}
	return s
}

func known(t *testing.T, g *Graph, of ID) Node {
	t.Helper()
	n, ok := g.Node(of)
	if !ok {
		t.Fatalf("process %v is not remembered", of)
	}
	return n
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// T1, T2: a double fork with setsid; its exec comes late, then never.
func TestDoubleForkKeepsItsCreators(t *testing.T) {
	for _, late := range []bool{true, false} {
		g := graph(
			root(10, 9, 1, 100), execs(10, 110, "agent", "--run"),
			fork(20, 10, 200), execs(20, 205, "sh", "-c", "x"),
			fork(30, 20, 300), exit(20, 310), reparent(30, 20, 1, 311), reaped(20, 312),
			fork(40, 30, 400), exit(30, 410), reparent(40, 30, 1, 411), reaped(30, 412),
		)
		if late {
			e := execs(40, 420, "sleep", "300")
			g.Apply(&e)
		}
		for i := range uint32(DefaultHistory + 10) { // time passes
			pid := 1000 + i
			for _, e := range []Event{fork(pid, 10, 500+uint64(i)), exit(pid, 501+uint64(i)), reaped(pid, 502+uint64(i))} {
				g.Apply(&e)
			}
		}
		equal(t, "ancestry", path(g, id(40)), "40<fork<30 30<fork<20 20<fork<10 10<root<9")
		equal(t, "tree", shape(g, false, 1), "10\n 20\n  30\n   40\n")
		n := known(t, g, id(40))
		equal(t, "creator", n.Creator, id(30))
		equal(t, "parent", n.Parent, id(1))
		equal(t, "orphan", n.Orphan, true)
		equal(t, "count", g.Count(1), Count{Live: 2, Orphans: 1})
		equal(t, "history", g.Stats().History, DefaultHistory)
		equal(t, "moves", fmt.Sprint(n.Reparents), fmt.Sprint([]Move{{Time: 411, From: id(30), To: id(1)}}))
		edges := g.Ancestry(id(40))
		equal(t, "creator's command then", fmt.Sprint(edges[0].CreatorArgv), "[sh -c x]")
		equal(t, "creator's command of its creator", fmt.Sprint(edges[2].CreatorArgv), "[agent --run]")
		want := "sh"
		if late {
			want = "sleep"
		}
		equal(t, "command", n.Argv[0], want)
	}
}

// T3: subreapers; the orphan moves twice.
func TestReparentLeavesLineageAlone(t *testing.T) {
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 20, 300), fork(40, 30, 400),
		exit(30, 500), reparent(40, 30, 20, 501), exit(20, 600), reparent(40, 20, 9, 601))
	equal(t, "ancestry", path(g, id(40)), "40<fork<30 30<fork<20 20<fork<10 10<root<9")
	n := known(t, g, id(40))
	equal(t, "parent", n.Parent, id(9))
	equal(t, "moves", fmt.Sprint(n.Reparents),
		fmt.Sprint([]Move{{Time: 501, From: id(30), To: id(20)}, {Time: 601, From: id(20), To: id(9)}}))
	equal(t, "count", g.Count(1), Count{Live: 2, Orphans: 1, Zombies: 2})
}

// T4: the PID is reused, with the old exit seen, late, or lost.
func TestPIDReuseInheritsNothing(t *testing.T) {
	old, now := ID{50, 500}, ID{50, 900}
	births := []Event{root(10, 9, 1, 100), fork(20, 10, 200)}
	oldBirth := Event{Type: Birth, Time: 500, ID: old, Session: 1, Evidence: Fork, Creator: id(20), Parent: id(20)}
	oldExit := Event{Type: Exit, Time: 600, ID: old, Session: 1, Status: 9}
	newBirth := Event{Type: Birth, Time: 900, ID: now, Session: 2, Evidence: Root, Creator: id(9), Parent: id(9)}
	for name, tail := range map[string][]Event{
		"in order":      {oldBirth, oldExit, newBirth},
		"late exit":     {oldBirth, newBirth, oldExit},
		"lost exit":     {oldBirth, newBirth},
		"late and lost": {newBirth, oldBirth},
		"late birth":    {newBirth, oldBirth, oldExit},
		"exit first":    {oldExit, newBirth, oldBirth},
		"all backwards": {newBirth, oldExit, oldBirth},
	} {
		t.Run(name, func(t *testing.T) {
			g := graph(append(slices.Clone(births), tail...)...)
			n, o := known(t, g, now), known(t, g, old)
			equal(t, "new", n.State, Live)
			equal(t, "session", n.Session, 2)
			equal(t, "creator", n.Creator, id(9))
			equal(t, "old is over", o.State.over(), true)
			equal(t, "old creator", o.Creator, id(20))
			equal(t, "status known", o.StatusKnown, name != "lost exit" && name != "late and lost")
			got, _ := g.ByPID(50)
			equal(t, "by PID", got, now)
			equal(t, "live of 1", g.Count(1).Live, 2)
			equal(t, "live of 2", g.Count(2).Live, 1)
		})
	}
}

// T8: CLONE_PARENT, three deep.
func TestCloneParentShowsBoth(t *testing.T) {
	g := graph(root(10, 9, 1, 100))
	for pid := uint32(20); pid <= 40; pid += 10 {
		e := fork(pid, pid-10, uint64(pid)*10)
		e.Parent = id(9)
		g.Apply(&e)
	}
	equal(t, "ancestry", path(g, id(40)), "40<clone_parent<30 30<clone_parent<20 20<clone_parent<10 10<root<9")
	equal(t, "parent", known(t, g, id(40)).Parent, id(9))
	equal(t, "count", g.Count(1), Count{Live: 4})
}

// Nested sessions, and a process that existed before its creator became the root of
// one.
func TestNestedSessions(t *testing.T) {
	nest := root(20, 10, 2, 400)
	inner := fork(40, 20, 500)
	inner.Session = 2
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 20, 300), nest, inner)
	equal(t, "inner", path(g, id(40)), "40<fork<20 20<root<10")
	equal(t, "before it", path(g, id(30)), "30<fork<20 20<fork<10 10<root<9")
	equal(t, "outer tree", shape(g, false, 1), "10\n30\n")
	equal(t, "inner tree", shape(g, false, 2), "20\n 40\n")
	equal(t, "both", shape(g, false, 1, 2), "10\n 20\n  30\n  40\n")
	equal(t, "outer", g.Count(1), Count{Live: 2})
	equal(t, "inner", g.Count(2), Count{Live: 2})
}

// T7: processes that existed when their session began, and one that had lost its creator.
func TestAdopted(t *testing.T) {
	adopted := func(pid, creator uint32) Event {
		e := fork(pid, creator, 900)
		e.Evidence = Adopted
		return e
	}
	g := graph(root(20, 9, 1, 900), adopted(30, 20), adopted(40, 1), fork(50, 40, 950))
	equal(t, "child", path(g, id(30)), "30<adopted<20 20<root<9")
	equal(t, "stray", path(g, id(50)), "50<fork<40 40<adopted<1")
	equal(t, "tree", shape(g, false, 1), "20\n 30\n40\n 50\n")
	// What it ran before is not what its creator runs.
	g = graph(root(20, 9, 1, 100), execs(20, 110, "asker", "x"), adopted(30, 20), fork(40, 30, 950))
	if n, m := known(t, g, id(30)), known(t, g, id(40)); n.Argv != nil || m.Argv != nil {
		t.Errorf("%q, %q", n.Argv, m.Argv)
	}
}

// A process that asked for work did not fork the worker: the worker's command is only
// what it was seen to run.
func TestAdoptedCommands(t *testing.T) {
	work := fork(30, 20, 250)
	work.Evidence = Adopted
	told := []Event{root(10, 9, 1, 100), fork(20, 10, 200), execs(20, 210, "ask"), work}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 3, 2}} {
		g := New(Options{})
		for _, i := range order {
			g.Apply(&told[i])
		}
		if n := known(t, g, id(30)); len(n.Commands) != 0 {
			t.Errorf("%v: it ran %+v", order, n.Commands)
		}
		edges := g.Ancestry(id(30))
		equal(t, "who asked", edges[0].CreatorArgv[0], "ask")
		later, child := execs(30, 300, "done"), fork(40, 30, 310)
		g.Apply(&later)
		g.Apply(&child)
		equal(t, "later", len(known(t, g, id(30)).Commands), 1)
		equal(t, "its child", known(t, g, id(40)).Commands[0].Argv[0], "done")
		sound(t, g)
	}
	g := graph(told[:3]...)
	s := Seen{ID: id(30), Creator: id(20), Session: 1, Evidence: Adopted, Looks: called("work")}
	g.Resync(900, []Seen{s})
	n := known(t, g, id(30))
	equal(t, "met in a snapshot", fmt.Sprint(n.Comm, " ", len(n.Commands)), "work 0")
}

// A process that was moved to another session keeps its lineage.
func TestMovedToAnotherSession(t *testing.T) {
	moved := execs(30, 400, "kept")
	moved.Session = 3
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 20, 300), moved, exit(20, 500), reaped(20, 501))
	equal(t, "ancestry", path(g, id(30)), "30<fork<20 20<fork<10 10<root<9")
	equal(t, "old", g.Count(1), Count{Live: 1})
	equal(t, "new", g.Count(3), Count{Live: 1, Orphans: 1})
	g.Forget(1)
	equal(t, "after the old one is closed", path(g, id(30)), "30<fork<20 20<fork<10 10<root<9")
	equal(t, "kept", g.Stats().Kept, 3)
}

// The earliest Birth decides the creator, whenever it arrives; the creator assumed
// before is no longer needed.
func TestEarliestBirthTellsTheCreator(t *testing.T) {
	forked, becomesRoot := fork(30, 10, 300), root(30, 8, 2, 500)
	for _, births := range [][]Event{{forked, becomesRoot}, {becomesRoot, forked}} {
		g := graph(root(10, 9, 1, 100))
		apply(g, births)
		n := known(t, g, id(30))
		equal(t, "creator", n.Creator, id(10))
		equal(t, "session", n.Session, 2)
		equal(t, "kept", g.Stats().Kept, 1)
		sound(t, g)
	}
}

func TestSecondExitIsIgnored(t *testing.T) {
	second := exit(20, 500)
	second.Status = 1
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), exit(20, 300), second)
	n := known(t, g, id(20))
	equal(t, "status", n.Status, 20<<8)
	equal(t, "exited", n.Exited, 300)
}

func TestMovesAndCommandsAreBounded(t *testing.T) {
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200))
	for i := range uint64(1000) {
		e := execs(20, 300+i, "sh", fmt.Sprint(i))
		m := reparent(20, 1, uint32(i%7)+1, 300+i)
		apply(g, []Event{e, m})
	}
	n := known(t, g, id(20))
	equal(t, "moves", len(n.Reparents), maxMoves)
	equal(t, "first move", n.Reparents[0].Time, 300)
	equal(t, "second move", n.Reparents[1].Time, 1300-maxMoves+1)
	equal(t, "commands", len(n.Commands), maxExecs)
	equal(t, "first command", n.Commands[0].Argv[1], "0")
	equal(t, "command", n.Argv[1], "999")
	equal(t, "images", g.Stats().Images, maxExecs)
}

// T16, T17: arguments are bytes.
func TestArguments(t *testing.T) {
	for _, c := range []struct {
		argv string
		want []string
	}{
		{"", nil},
		{"\x00", []string{""}},
		{"a\x00\x00b\x00", []string{"a", "", "b"}},
		{"a\x00cut", []string{"a", "cut"}},
		{"\xff\x1b[2J\n\x00", []string{"\xff\x1b[2J\n"}},
		{strings.Repeat("x\x00", 10000), slices.Repeat([]string{"x"}, 10000)},
	} {
		e := Event{Type: Exec, Time: 200, ID: id(10), Session: 1, Looks: called("sixteen bytes...\x00rest"),
			Exe: []byte("/bin/\x1b\x00rest"), Argv: []byte(c.argv), ArgvTruncated: true}
		n := known(t, graph(root(10, 9, 1, 100), e), id(10))
		if !slices.Equal(n.Argv, c.want) {
			t.Errorf("argv %.40q: got %.40q", c.argv, n.Argv)
		}
		equal(t, "truncated", n.ArgvTruncated, true)
		equal(t, "comm", n.Comm.String(), "sixteen bytes..")
		equal(t, "exe", n.Exe, "/bin/\x1b")
	}
}

func permute(events []Event, visit func([]Event)) {
	var rec func(int)
	rec = func(k int) {
		if k == len(events) {
			visit(events)
			return
		}
		for i := k; i < len(events); i++ {
			events[k], events[i] = events[i], events[k]
			rec(k + 1)
			events[k], events[i] = events[i], events[k]
		}
	}
	rec(0)
}

// dump renders everything that a graph answers.
func dump(g *Graph) string {
	s := ""
	for _, b := range allNodes(g) {
		n, _ := g.Node(b)
		s += fmt.Sprintf("%+v\n%+v\n", n, g.Ancestry(b))
	}
	for _, session := range []SessionID{1, 2, 3} {
		s += fmt.Sprintf("%+v\n%s", g.Count(session), shape(g, true, session))
	}
	return s
}

func allNodes(g *Graph) []ID {
	var ids []ID
	for _, slab := range g.slabs {
		for i := range slab {
			if slab[i].id.PID != 0 {
				ids = append(ids, slab[i].id)
			}
		}
	}
	slices.SortFunc(ids, ID.compare)
	return ids
}
