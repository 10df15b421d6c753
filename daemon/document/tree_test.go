package document

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestTree(t *testing.T) {
	e := family()
	rows := e.Graph.Tree(true, session)
	shape := func(rows []lineage.Branch) (s string) {
		roots, nodes := e.Tree(rows, everyone{})
		s = fmt.Sprint(roots)
		for _, n := range nodes {
			s += fmt.Sprint(" ", n.PID, n.Children)
		}
		return s
	}
	if got, want := shape(rows), "[100@1000] 100 [101@1010] 101 [102@1020] 102 []"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := shape(Subtree(slices.Clone(rows), id(101))), "[101@1010] 101 [102@1020] 102 []"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := Subtree(rows, id(9)); len(got) != 0 {
		t.Error(got)
	}
	roots, nodes := e.Tree(nil, everyone{})
	same(t, api.Tree{Roots: roots, Nodes: nodes}, `{"roots":[],"nodes":[]}`)
}

// TestWhy: the line ends at the root, whose creator only the kernel knows.
func TestWhy(t *testing.T) {
	e := family()
	d := e.Why(e.node(t, 102), nil, user(5))
	if d.Process.PID != 102 || d.Session != nil || len(d.Edges) != 3 {
		t.Fatalf("%+v", d)
	}
	same(t, d.Edges[0].Reparented, `[{"time":"2026-01-02T03:04:05.00000103Z","from":{"pid":101,"start_ns":"1010"},"to":{"pid":1,"start_ns":"10"}}]`)
	same(t, d.Edges[0].Creator, `{"pid":101,"start_ns":"1010","comm":"agent","argv":["agent","-x"],"alive":false,"exited":"2026-01-02T03:04:05.00000103Z"}`)
	same(t, d.Edges[2].Creator, `{"pid":9,"start_ns":"90","alive":true}`)
	if d.Edges[2].Kind != "root" || d.Edges[2].Evidence.Source != "socket" {
		t.Errorf("%+v", d.Edges[2])
	}
	e.Kernel = running{9: {PID: 9, Start: 91}} // another process has its PID
	d = e.Why(e.node(t, 102), &Session{Info: tracer.SessionInfo{ID: session}}, user(6))
	if d.Edges[2].Creator.Alive || d.Session.ID != session.String() || d.Process.Argv != nil || d.Edges[0].Child.Argv != nil || d.Edges[0].Creator.Argv != nil {
		t.Errorf("%+v", d)
	}
}

// TestRestored: a graph restored from nodes describes the dead as the original does.
func TestRestored(t *testing.T) {
	e := family()
	e.Graph.Forget(session)
	then := Encoder{Graph: lineage.New(lineage.Options{}), Clock: e.Clock, Kernel: e.Kernel}
	for _, b := range e.Graph.Tree(true, session) {
		n, _ := e.Graph.Node(b.ID)
		then.Graph.Restore(&n)
	}
	then.Graph.Forget(session)
	for _, pid := range []uint32{100, 101, 102} {
		if live, past := e.Why(e.node(t, pid), nil, everyone{}), then.Why(then.node(t, pid), nil, everyone{}); text(t, live) != text(t, past) {
			t.Errorf("%d: live %s\nrestored %s", pid, text(t, live), text(t, past))
		}
	}
}
