package lineage

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// mirror is what a reader of the changes knows of a graph.
type mirror map[ID]Node

func (m mirror) take(g *Graph, limit int) (more bool) {
	var c Changes
	g.Take(limit, &c)
	if c.Lost {
		clear(m)
	}
	for _, id := range c.Forgot {
		delete(m, id)
	}
	for _, id := range c.Changed {
		n, ok := g.Node(id)
		if !ok {
			panic("a forgotten process changed")
		}
		m[id] = n
	}
	return c.More
}

func everything(g *Graph) mirror {
	all := mirror{}
	for _, slab := range g.slabs {
		for i := range slab {
			if slab[i].id.PID != 0 {
				all[slab[i].id] = slab[i].view()
			}
		}
	}
	return all
}

// TestChangesAreComplete: whatever happens, and however rarely and little is taken, a
// reader that has taken all changes knows what the graph knows.
func TestChangesAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		g := New(Options{History: rapid.IntRange(1, 30).Draw(t, "history")})
		w.run(20)
		apply(g, w.take(10, 10, 3))
		g.Track(true)
		m := mirror{}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			w.run(20)
			for _, e := range w.take(10, 10, 10) {
				g.Apply(&e)
				if rapid.IntRange(0, 3).Draw(t, "take at once") == 0 {
					m.take(g, 100)
				}
			}
			if rapid.Bool().Draw(t, "resync") {
				seen := w.snapshot()
				seen[0].RSS = uint64(rapid.IntRange(0, 1).Draw(t, "rss"))
				g.Resync(w.clock, seen)
			}
			if rapid.IntRange(0, 5).Draw(t, "forget") == 0 {
				g.Forget(1)
			}
			if rapid.Bool().Draw(t, "take some") {
				m.take(g, rapid.IntRange(1, 20).Draw(t, "limit"))
			}
		}
		for m.take(g, 7) {
		}
		if want := everything(g); !reflect.DeepEqual(m, want) {
			for id, n := range want {
				if !reflect.DeepEqual(m[id], n) {
					t.Errorf("%v is %+v\nmirrored %+v", id, n, m[id])
				}
			}
			t.Fatalf("%d in the graph, %d in the mirror", len(want), len(m))
		}
	})
}

// TestChangesOfAStorm: nothing is taken while more is forgotten than is remembered.
func TestChangesOfAStorm(t *testing.T) {
	g := New(Options{History: 4})
	g.Track(true)
	m := mirror{}
	for i := range uint32(2 * maxForgotten) {
		id := ID{10 + i%1000, uint64(i) + 5}
		g.Apply(&Event{Type: Birth, Time: id.Start, ID: id, Session: 1, Evidence: Fork})
		g.Apply(&Event{Type: Exit, Time: id.Start, ID: id, Session: 1})
		g.Apply(&Event{Type: Reaped, Time: id.Start, ID: id})
		if i == 100 {
			m.take(g, 1000)
		}
	}
	if len(g.forgot) > maxForgotten || int(g.dirty.n) > g.index.n {
		t.Errorf("%d forgotten and %d changed wait, %d are known", len(g.forgot), g.dirty.n, g.index.n)
	}
	for m.take(g, 3) {
	}
	if want := everything(g); !reflect.DeepEqual(m, want) {
		t.Errorf("%d in the graph, %d in the mirror", len(want), len(m))
	}
	g.Track(false)
	g.Apply(&Event{Type: Birth, Time: 1 << 40, ID: ID{9, 1 << 40}, Session: 1, Evidence: Fork})
	if g.dirty.n != 0 || len(g.forgot) != 0 {
		t.Error("changes are noted for nobody")
	}
}

// TestCollapsedChainChanges: a process that gets another remembered ancestor, because
// those between are left out, has changed.
func TestCollapsedChainChanges(t *testing.T) {
	g := New(Options{})
	g.Track(true)
	m := mirror{}
	at := uint64(100)
	apply := func(e Event) {
		at++
		e.Time, e.Session = at, 1
		g.Apply(&e)
		m.take(g, 10)
	}
	creator := ID{10, 50}
	apply(Event{Type: Birth, ID: creator, Evidence: Root})
	for i := range uint32(3 * collapseMin) {
		id := ID{11 + i, at}
		apply(Event{Type: Birth, ID: id, Evidence: Fork, Creator: creator, Parent: creator})
		if i > 0 {
			apply(Event{Type: Exit, ID: creator})
			apply(Event{Type: Reaped, ID: creator})
		}
		creator = id
	}
	if g.Stats().Collapsed == 0 {
		t.Fatal("nothing was left out")
	}
	if want := everything(g); !reflect.DeepEqual(m, want) {
		t.Errorf("%d in the graph, %d in the mirror", len(want), len(m))
	}
}

// TestQuietChanges: changes that no event of the process itself reports.
func TestQuietChanges(t *testing.T) {
	a, b, p, x := ID{2, 5}, ID{3, 6}, ID{10, 50}, ID{11, 60}
	for name, c := range map[string]struct {
		before []Event
		change func(*Graph)
	}{
		"a snapshot finds another parent": {
			[]Event{{Type: Birth, Time: 50, ID: p, Session: 1, Evidence: Root, Parent: a}},
			func(g *Graph) { g.Resync(99, []Seen{{ID: p, Session: 1, Evidence: Root, Parent: b}}) },
		},
		"a snapshot finds it grown": {
			[]Event{{Type: Birth, Time: 50, ID: p, Session: 1, Evidence: Root}},
			func(g *Graph) { g.Resync(99, []Seen{{ID: p, Session: 1, Evidence: Root, RSS: 7}}) },
		},
		"its creator is forgotten": {
			[]Event{
				{Type: Birth, Time: 50, ID: p, Session: 1, Evidence: Root},
				{Type: Exit, Time: 70, ID: p, Session: 1}, {Type: Reaped, Time: 71, ID: p},
				{Type: Exit, Time: 80, ID: x, Session: 1}, {Type: Reaped, Time: 81, ID: x},
				{Type: Birth, Time: 60, ID: x, Session: 1, Evidence: Fork, Creator: p}, // late
			},
			func(g *Graph) { g.Apply(&Event{Type: Reaped, Time: 90, ID: ID{12, 89}}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := New(Options{History: 2})
			g.Track(true)
			apply(g, c.before)
			m := mirror{}
			m.take(g, 100)
			before := everything(g)
			c.change(g)
			m.take(g, 100)
			want := everything(g)
			if reflect.DeepEqual(before, want) {
				t.Fatal("nothing changed")
			}
			if !reflect.DeepEqual(m, want) {
				t.Errorf("got %+v, want %+v", m, want)
			}
		})
	}
}

// TestNothingChanges: a snapshot that repeats what is known causes no changes.
func TestNothingChanges(t *testing.T) {
	g := New(Options{})
	g.Track(true)
	p, a := ID{10, 50}, ID{2, 5}
	g.Apply(&Event{Type: Birth, Time: 50, ID: p, Session: 1, Evidence: Root, Parent: a, Looks: called("sh")})
	var c Changes
	g.Take(10, &c)
	g.Resync(99, []Seen{{ID: p, Session: 1, Evidence: Root, Parent: a, Looks: called("sh")}, {ID: a, Looks: called("init")}})
	if g.Take(10, &c); len(c.Changed)+len(c.Forgot) != 0 {
		t.Errorf("%+v", c)
	}
}
