package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

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
			if s += fmt.Sprint(" ", n.PID, n.Children); (n.Busy != nil) != (n.State == api.StateLive) {
				t.Errorf("%d, %s: %v", n.PID, n.State, n.Busy)
			}
		}
		return s
	}
	if got, want := shape(rows), "[100@1000] 100 [101@1010] 101 [102@1020] 102 []"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	roots, nodes := e.Tree(nil, everyone{})
	same(t, api.Tree{Roots: roots, Nodes: nodes}, `{"roots":[],"nodes":[]}`)
}

// TestTreeIsBounded: what members choose to run does not make a tree of any size.
func TestTreeIsBounded(t *testing.T) {
	const processes = 16384
	g := lineage.New(lineage.Options{})
	e := Encoder{Graph: g, Clock: Fixed(time.Unix(0, 0))}
	for pid := uint32(1); pid <= processes; pid++ {
		creator := lineage.ID{}
		if pid > 1 {
			creator = id(1)
		}
		at := uint64(pid) * 10
		g.Apply(&lineage.Event{Type: lineage.Birth, Time: at, ID: id(pid), Creator: creator, Session: session})
		if pid == 1 {
			argv := append(bytes.Repeat([]byte{1}, 4094), 0)
			g.Apply(&lineage.Event{Type: lineage.Exec, Time: at + 1, ID: id(pid), Session: session, Exe: []byte("/a"), Argv: argv})
		}
		if pid > 1 && pid < processes {
			g.Apply(&lineage.Event{Type: lineage.Exit, Time: at + 2, ID: id(pid), Session: session})
		}
	}
	roots, nodes := e.Tree(g.Tree(true, session), everyone{})
	text, err := json.Marshal(api.Tree{Roots: roots, Nodes: nodes})
	if err != nil || len(nodes) != processes || len(text) > maxText+processes*512 {
		t.Errorf("%d processes in %d bytes: %v", len(nodes), len(text), err)
	}
	for i, whole := range map[int]bool{0: true, 1: true, processes - 2: false, processes - 1: true} {
		if n := &nodes[i]; n.ArgvTruncated == whole || (n.Argv != nil) != whole {
			t.Errorf("process %v: %d arguments, truncated: %v", n.Ref, len(n.Argv), n.ArgvTruncated)
		}
	}
}

// A command line is never longer as JSON than it was counted.
func TestTextSize(t *testing.T) {
	for _, arg := range []string{"", "ls", "a b", "\"\\/", "<&>", "\x00\n\t\x7f", "grüße", "\xff\xfe", "\u2028", "\U0001f600"} {
		text, err := json.Marshal([]string{arg})
		if got := textSize([]string{arg}, 100); err != nil || len(text) > got+1 {
			t.Errorf("%q: %d bytes, counted %d: %v", arg, len(text), got, err)
		}
	}
	if got := textSize(make([]string, 4095), 30); got > 33 {
		t.Errorf("counted on to %d", got)
	}
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
