package lineage

import (
	"fmt"
	"testing"
)

func TestResyncCreatesWhatWasLost(t *testing.T) {
	g := graph(root(10, 9, 1, 100))
	changes := g.Resync(1000, []Seen{
		{ID: id(10), Session: 1, Evidence: Root, Creator: id(9), Parent: id(9)},
		seen(40, 30, 1), // before its creator
		seen(30, 10, 10),
		{ID: id(9), Looks: called("bash")},
		{ID: id(77), Looks: called("stranger")},
	})
	equal(t, "changes", fmt.Sprint(changes), fmt.Sprint([]Change{
		{Kind: Found, ID: id(40), Session: 1}, {Kind: Found, ID: id(30), Session: 1},
	}))
	equal(t, "ancestry", path(g, id(40)), "40<fork<30 30<fork<10 10<root<9")
	n := known(t, g, id(40))
	equal(t, "reconciled", n.Reconciled, true)
	equal(t, "parent", n.Parent, id(1))
	equal(t, "count", g.Count(1), Count{Live: 3})
	_, ok := g.Node(id(77))
	equal(t, "stranger entered", ok, false)
	equal(t, "comm of the creator outside", known(t, g, id(9)).Comm, CommOf("bash"))

	late := fork(40, 30, 400) // the Birth arrives after all
	g.Apply(&late)
	n = known(t, g, id(40))
	equal(t, "reconciled", n.Reconciled, false)
	equal(t, "parent", n.Parent, id(1))
}

// T12: the creator between was born and died unseen; its child names it.
func TestResyncShowsTheMissingCreator(t *testing.T) {
	g := graph(root(10, 9, 1, 100))
	all := []Seen{{ID: id(10), Session: 1, Evidence: Root, Creator: id(9), Parent: id(9)}, seen(40, 30, 1)}
	g.Resync(1000, all)
	equal(t, "ancestry", path(g, id(40)), "40<fork<30")
	equal(t, "tree", shape(g, false, 1), "10\n30\n 40\n")
	n := known(t, g, id(30))
	equal(t, "ghost", n.Ghost, true)
	equal(t, "state", n.State, Exited)
	equal(t, "orphan", known(t, g, id(40)).Orphan, true)
}

func TestResyncVanished(t *testing.T) {
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 20, 300), fork(40, 10, 400), exit(40, 410), fork(50, 10, 1001))
	changes := g.Resync(1000, []Seen{
		{ID: id(10), Session: 1, Evidence: Root, Creator: id(9), Parent: id(9)}, seen(30, 20, 1),
	})
	equal(t, "changes", fmt.Sprint(changes), fmt.Sprint([]Change{
		{Kind: Reparented, ID: id(30), Session: 1, From: id(20), To: id(1)},
		{Kind: Gone, ID: id(40), Session: 1}, {Kind: Vanished, ID: id(20), Session: 1},
	}))
	n := known(t, g, id(20))
	equal(t, "state", n.State, Exited)
	equal(t, "exited", n.Exited, 1000)
	equal(t, "status known", n.StatusKnown, false)
	equal(t, "newer than the snapshot", known(t, g, id(50)).State, Live)
	equal(t, "count", g.Count(1), Count{Live: 3, Orphans: 1})

	late := exit(20, 290)
	g.Apply(&late)
	n = known(t, g, id(20))
	equal(t, "state", n.State, Exited)
	equal(t, "exited", n.Exited, 290)
	equal(t, "status", n.Status, 20<<8)
	odd := execs(20, 2000, "odd")
	g.Apply(&odd)
	equal(t, "after a told end", known(t, g, id(20)).State, Exited)
	moved := reparent(30, 20, 1, 291)
	g.Apply(&moved)
	equal(t, "the told move replaces the inferred one", fmt.Sprint(known(t, g, id(30)).Reparents),
		fmt.Sprint([]Move{{Time: 291, From: id(20), To: id(1)}}))
}

// T10: an old snapshot neither revives the dead nor changes what is newer.
func TestResyncWithAnOldSnapshot(t *testing.T) {
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200), fork(30, 10, 300),
		exit(20, 1100), fork(60, 10, 1200), execs(30, 1300, "new"), reparent(30, 10, 1, 1310),
		fork(70, 10, 700), exit(70, 710), reaped(70, 711),
		fork(80, 10, 800), reparent(80, 10, 1, 1320), fork(90, 10, 900), execs(90, 1330, "new"))
	old := seen(30, 10, 10)
	old.Session, old.Comm = 7, CommOf("old")
	busy, dead := seen(20, 10, 10), seen(90, 10, 10)
	busy.CPUTime, dead.Dead = 99, true
	changes := g.Resync(1000, []Seen{
		{ID: id(10), Session: 1, Evidence: Root, Creator: id(9), Parent: id(9)}, busy, old,
		seen(70, 10, 1), seen(80, 10, 10), dead,
	})
	equal(t, "changes", len(changes), 0)
	equal(t, "dead", known(t, g, id(20)).State, Zombie)
	equal(t, "CPU time of the dead", known(t, g, id(20)).CPUTime, 5)
	equal(t, "newer", known(t, g, id(60)).State, Live)
	equal(t, "parent of the reaped", known(t, g, id(70)).Parent, id(10))
	equal(t, "parent moved since", known(t, g, id(80)).Parent, id(1))
	equal(t, "exec since", known(t, g, id(90)).State, Live)
	n := known(t, g, id(30))
	equal(t, "session", n.Session, 1)
	equal(t, "comm", n.Comm, CommOf("new"))
	equal(t, "parent", n.Parent, id(1))
}

// A process whose end was only inferred is revived on proof.
func TestInferredEndGivesWay(t *testing.T) {
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200))
	all := []Seen{{ID: id(10), Session: 1, Evidence: Root, Creator: id(9), Parent: id(9)}}
	g.Resync(1000, all)
	equal(t, "state", known(t, g, id(20)).State, Exited)
	g.Resync(900, append(all, seen(20, 10, 10)))
	equal(t, "after an older snapshot", known(t, g, id(20)).State, Exited)
	g.Resync(1100, append(all, seen(20, 10, 10)))
	equal(t, "after a newer snapshot", known(t, g, id(20)).State, Live)
	equal(t, "count", g.Count(1), Count{Live: 2})

	last := exit(20, 1200)
	g.Apply(&last)
	late := execs(20, 1300, "odd")
	g.Apply(&late)
	equal(t, "after a told end", known(t, g, id(20)).State, Zombie)

	g.Forget(1)
	equal(t, "count when forgotten", g.Count(1), Count{})
	equal(t, "kept", g.Stats().Kept, 0)
}

// T15: a new graph learns everything from one snapshot; late events from before it
// change nothing.
func TestResyncAfterRestart(t *testing.T) {
	g := New(Options{})
	gone := seen(30, 20, 1)
	gone.Dead, gone.Zombie = true, true
	g.Resync(1000, []Seen{{ID: id(20), Session: 1, Evidence: Fork, Creator: id(10), Parent: id(1)}, gone, seen(40, 30, 1)})
	equal(t, "count", g.Count(1), Count{Live: 2, Orphans: 2, Zombies: 1})
	want := shape(g, false, 1)
	equal(t, "tree", want, "10\n 20\n  30\n   40\n")
	for _, e := range []Event{fork(40, 30, 410), exit(30, 420), exit(10, 405), execs(40, 430, "late")} {
		g.Apply(&e)
	}
	equal(t, "tree", shape(g, false, 1), want)
	equal(t, "count", g.Count(1), Count{Live: 2, Orphans: 2, Zombies: 1})
	equal(t, "comm", known(t, g, id(40)).Comm, CommOf("sh"))
}

// A PID has one present process, whatever is reported of the older one.
func TestOlderProcessOfAPIDStaysDead(t *testing.T) {
	old, young := ID{20, 200}, ID{20, 400}
	g := graph(root(10, 9, 1, 100), fork(20, 10, 200),
		Event{Type: Birth, Time: 400, ID: young, Session: 1, Evidence: Fork, Creator: id(10)},
		execs(20, 500, "odd"))
	equal(t, "old", known(t, g, old).State, Exited)
	equal(t, "young", known(t, g, young).State, Live)
}

// It is revived with its creator, even if the creator was forgotten meanwhile.
func TestInferredEndGivesWayToAWholeProcess(t *testing.T) {
	g := New(Options{History: 2})
	apply(g, []Event{fork(20, 10, 200), fork(30, 20, 300), fork(40, 10, 400), exit(20, 310), reaped(20, 311)})
	g.Resync(1000, []Seen{seen(40, 10, 1)})
	for pid := uint32(100); g.Stats().Nodes > 0; pid++ {
		at := uint64(pid) * 100
		apply(g, []Event{exit(pid, at)})
		if _, ok := g.Node(id(20)); !ok {
			break
		}
	}
	g.Resync(1<<20, []Seen{seen(40, 10, 1), seen(30, 20, 1)})
	equal(t, "ancestry", path(g, id(30)), "30<fork<20")
	equal(t, "creator", known(t, g, id(20)).Ghost, true)
	sound(t, g)
}

// Impossible creators are ignored: a graph with a cycle would never return.
func TestImpossibleCreators(t *testing.T) {
	a, b, c := ID{2, 100}, ID{3, 100}, ID{4, 100}
	born := func(id, creator ID, at uint64) Event {
		return Event{Type: Birth, Time: at, ID: id, Session: 1, Evidence: Fork, Creator: creator, Parent: creator}
	}
	g := graph(born(a, b, 103), born(b, c, 102), born(c, a, 101), // a coarse clock
		born(ID{5, 500}, ID{6, 900}, 500), born(ID{7, 500}, ID{7, 500}, 500))
	equal(t, "the first two are believed", path(g, a), "2<fork<3 3<fork<4 4<fork<0")
	equal(t, "younger than its child", known(t, g, ID{5, 500}).Creator, ID{})
	equal(t, "its own creator", known(t, g, ID{7, 500}).Creator, ID{})
	sound(t, g)
}

// TestUsage: a session's usage is that of the last snapshot, without what exits and moves have
// taken away since. The Exit says what a process used in the end; until then it is the snapshot's.
func TestUsage(t *testing.T) {
	g := New(Options{})
	at := func(e Event, at uint64) { e.Time = at; g.Apply(&e) }
	for pid := range uint32(4) {
		at(Event{Type: Birth, ID: id(pid + 1), Session: 1, Evidence: Fork}, 110)
	}
	seen := func(cpu uint64) (all []Seen) {
		for pid := range uint32(4) {
			all = append(all, Seen{ID: id(pid + 1), Session: 1, Evidence: Fork, CPUTime: cpu << pid, RSS: 100 << pid})
		}
		return all
	}
	g.Resync(120, seen(1))
	equal(t, "seen", g.Count(1), Count{Live: 4, CPUTime: 1 + 2 + 4 + 8, RSS: 1500})
	at(Event{Type: Exit, ID: id(1), Session: 1, CPUTime: 7}, 130)
	equal(t, "one has exited", g.Count(1), Count{Live: 3, Zombies: 1, CPUTime: 2 + 4 + 8, RSS: 1400})
	g.Resync(125, seen(2)) // begun before the exit
	equal(t, "seen before the exit", g.Count(1), Count{Live: 3, Zombies: 1, CPUTime: 4 + 8 + 16, RSS: 1400})
	at(Event{Type: Birth, ID: id(2), Session: 2, Evidence: Root}, 140)
	equal(t, "left", g.Count(1), Count{Live: 2, Zombies: 1, CPUTime: 8 + 16, RSS: 1200})
	equal(t, "joined", g.Count(2), Count{Live: 1, CPUTime: 4, RSS: 200})
	g.Resync(150, []Seen{{ID: id(4), Session: 1, Evidence: Fork, CPUTime: 20, RSS: 800}})
	equal(t, "vanished", g.Count(1), Count{Live: 1, CPUTime: 8 + 20, RSS: 800})
	at(Event{Type: Exit, ID: id(3), Session: 1, CPUTime: 9}, 145)
	equal(t, "late exit", g.Count(1), Count{Live: 1, CPUTime: 20, RSS: 800})
}
