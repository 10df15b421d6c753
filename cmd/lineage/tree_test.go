package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A chain of thousands must not be drawn with thousands of bars a line, and a cycle
// must end.
func TestDeepTree(t *testing.T) {
	const depth = 5000
	tree := &api.Tree{Session: &api.Session{ID: "deep00", State: "active"}, Roots: []api.Ref{ref(1)}}
	for pid := 1; pid <= depth; pid++ {
		tree.Nodes = append(tree.Nodes, api.Node{Process: live(pid, "sh"), Children: []api.Ref{ref(pid%depth + 1)}})
	}
	f := &apitest.Client{Has: apitest.Has{Sessions: []api.Session{*tree.Session}, Trees: map[string]*api.Tree{"deep00": tree}}}
	_, stdout, _ := newWorld(t, f).run("tree", "deep00")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != depth+1 || len(stdout) > 400*depth {
		t.Errorf("%d processes take %d lines and %d bytes", depth, len(lines), len(stdout))
	}
	if last := lines[depth]; !strings.HasPrefix(last, "[4999] ") || !strings.Contains(last, "5000 sh") {
		t.Errorf("the last line is %q", last)
	}
}

// A broken stream is resumed where it broke, unless it brought nothing.
func TestEventsResume(t *testing.T) {
	broken := &api.UnreachableError{Socket: "/s", Err: api.ErrBroken}
	f := newFake()
	var asked []uint64
	f.On.Events = func(_ context.Context, q api.EventsQuery, each func(*api.Event) error) error {
		asked = append(asked, q.From)
		switch len(asked) {
		case 1, 2:
			if err := each(&api.Event{Seq: api.U64(100 * len(asked)), Type: "lost", Count: 1, Where: "ring"}); err != nil {
				return err
			}
		}
		return broken
	}
	code, stdout, stderr := newWorld(t, f).run("events")
	if fmt.Sprint(asked) != "[0 101 201]" || strings.Count(stdout, "\n") != 2 {
		t.Errorf("asked from %v, got %s", asked, stdout)
	}
	if code != 5 || !strings.HasPrefix(stderr, "lineage: the stream broke: resuming at event 101\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// Until an orphan's new parent is known, the dead one is not shown as the current
// parent; a process whose state is not known is not shown as alive.
func TestOrphanWithUnknownParent(t *testing.T) {
	f := newFake()
	for i := range f.Has.Trees["k3x9q2"].Nodes {
		if n := &f.Has.Trees["k3x9q2"].Nodes[i]; n.Orphan {
			n.Parent, n.State, n.Task = n.Creator, "", ""
		}
	}
	_, stdout, _ := newWorld(t, f).run("tree", "build")
	require.Contains(t, stdout, "● ? 4130 sleep 300  ↷ orphan\n")
}

// A sandbox is said to hide what runs inside.
func TestTreeTellsSandboxes(t *testing.T) {
	f := newFake()
	f.Has.Trees = map[string]*api.Tree{f.Has.Sessions[0].ID: {Session: &f.Has.Sessions[0], Roots: []api.Ref{ref(1)},
		Nodes: []api.Node{{Process: live(1, "firecracker")}}}}
	_, stdout, _ := newWorld(t, f).run("tree", f.Has.Sessions[0].ID)
	require.Contains(t, stdout, "1 firecracker  virtual machine, what runs inside is not seen\n")
}
