package lineage

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A graph that is restored from another one's nodes, as they are kept, knows the same of each.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run(40)
		g := New(Options{})
		for i := range w.events {
			g.Apply(&w.events[i])
		}
		var nodes []Node
		for id := range w.all {
			n, ok := g.Node(id)
			if !ok {
				t.Fatalf("%v is not known", id)
			}
			nodes = append(nodes, n)
		}
		slices.SortFunc(nodes, func(a, b Node) int { return a.ID.compare(b.ID) })
		got := New(Options{})
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			for i := range nodes {
				kept, short := Node{ID: nodes[i].ID, Session: nodes[i].Session}, nodes[i]
				short.Shorten()
				if text, err := json.Marshal(&short); err != nil || json.Unmarshal(text, &kept) != nil {
					t.Fatal(err)
				}
				got.Restore(&kept)
			}
		}
		for i := range nodes {
			want := &nodes[i]
			n, ok := got.Node(want.ID)
			if !ok {
				t.Fatalf("%v is not restored", want.ID)
			}
			if !reflect.DeepEqual(n, *want) {
				t.Fatalf("restored\n%+v\nwant\n%+v", n, *want)
			}
			if g.Needed(want.ID) != got.Needed(want.ID) {
				t.Fatalf("%v: needed %v, want %v", want.ID, got.Needed(want.ID), g.Needed(want.ID))
			}
		}
	})
}

// Nodes without an identity, and ghosts, are not restored.
func TestRestoreNothing(t *testing.T) {
	g := New(Options{})
	g.Restore(&Node{})
	g.Restore(&Node{ID: id(5), Ghost: true})
	if s := g.Stats(); s.Nodes != 0 {
		t.Errorf("%+v", s)
	}
}
