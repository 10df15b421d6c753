package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// `tree -i` reads what `events` writes, without a daemon.
func TestRecording(t *testing.T) {
	file, recorded := recording(t)
	golden(t, "recording", strings.ReplaceAll(newWorld(t, nil).record("tree", "-i", file), file, "FILE"))

	t.Run("stdin", func(t *testing.T) {
		_, want, _ := newWorld(t, nil).run("tree", "-i", file, "k3x9q2")
		w := newWorld(t, nil)
		w.Stdin = strings.NewReader(recorded)
		if code, got, stderr := w.run("tree", "-i", "-", "k3x9q2"); code != 0 || got != want {
			t.Errorf("exit %d, %s%s", code, got, stderr)
		}
	})
	t.Run("a process", func(t *testing.T) {
		_, got, _ := newWorld(t, nil).run("tree", "-i", file, "4140@4140000", "-o", "name")
		require.Equal(t, got, "4140@4140000\n4141@4141000\n")
	})
	t.Run("not in it", func(t *testing.T) {
		code, _, stderr := newWorld(t, nil).run("tree", "-i", file, "nosuch")
		if code != 3 || stderr != "lineage: nosuch: not in the recording\n" {
			t.Errorf("exit %d: %s", code, stderr)
		}
	})
	t.Run("every prefix", func(t *testing.T) {
		for n := range len(recorded) {
			w := newWorld(t, nil)
			w.Stdin = strings.NewReader(recorded[:n])
			code, _, stderr := w.run("tree", "-i", "-")
			switch cut := recorded[:n]; {
			case !strings.Contains(cut, "\n"):
				if code != 1 || !strings.Contains(stderr, "not a recording") {
					t.Fatalf("%d bytes: exit %d, %s", n, code, stderr)
				}
			case strings.HasSuffix(cut, "\n"):
				if code != 0 || stderr != "" {
					t.Fatalf("%d bytes: exit %d, %s", n, code, stderr)
				}
			default:
				if code != 0 || stderr != "lineage: -: the last line is cut off and was left out\n" {
					t.Fatalf("%d bytes: exit %d, %s", n, code, stderr)
				}
			}
		}
	})
	for name, text := range map[string]string{
		"another file":   "root:x:0:0\n",
		"other JSON":     `{"a":1}` + "\n",
		"empty":          "",
		"a damaged line": `{"kind":"recording"}` + "\n{{{\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.Stdin = strings.NewReader(text)
			if code, stdout, stderr := w.run("tree", "-i", "-"); code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, %s%s", code, stdout, stderr)
			}
		})
	}
}

func FuzzRecording(f *testing.F) {
	f.Add(`{"kind":"process","pid":2,"start_ns":"2","session":"a","creator":{"pid":2,"start_ns":"2"}}`)
	f.Add(`{"type":"fork","session":"a","process":{"pid":2,"start_ns":"2","creator":{"pid":3,"start_ns":"1"}}}` + "\n" +
		`{"type":"fork","session":"a","process":{"pid":3,"start_ns":"1","creator":{"pid":2,"start_ns":"2"}}}` + "\n" +
		`{"type":"reparent","process":{"pid":3,"start_ns":"1"}}`)
	f.Fuzz(func(t *testing.T, lines string) {
		w := newWorld(t, nil)
		w.Stdin = strings.NewReader(`{"kind":"recording"}` + "\n" + lines + "\n")
		code, stdout, stderr := w.run("tree", "-i", "-")
		if bad := unprintable(stdout + stderr); bad != "" || code != 0 && code != 1 {
			t.Errorf("exit %d, prints %q: %s%s", code, bad, stdout, stderr)
		}
	})
}

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
		if q.Snapshot != (len(asked) == 1) {
			t.Errorf("question %d: snapshot %t", len(asked), q.Snapshot)
		}
		switch len(asked) {
		case 1, 2:
			if err := each(&api.Event{Seq: api.U64(100 * len(asked)), Type: "lost", Count: 1, Where: "ring"}); err != nil {
				return err
			}
		}
		return broken
	}
	code, stdout, stderr := newWorld(t, f).run("events", "--snapshot")
	if fmt.Sprint(asked) != "[0 101 201]" || strings.Count(stdout, "\n") != 2 {
		t.Errorf("asked from %v, got %s", asked, stdout)
	}
	if code != 5 || !strings.HasPrefix(stderr, "lineage: the stream broke: resuming at event 101\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestEventsReason(t *testing.T) {
	f := newFake()
	f.Has.Events = []api.Event{{Head: api.Head{Kind: "end"}, Reason: "slow"}}
	if _, _, stderr := newWorld(t, f).run("events"); stderr != "lineage: events: the daemon ended the stream: slow\n" {
		t.Errorf("says %q", stderr)
	}
}

func TestEventsQuery(t *testing.T) {
	f := newFake()
	enough := errors.New("enough")
	var got api.EventsQuery
	f.On.Events = func(_ context.Context, q api.EventsQuery, _ func(*api.Event) error) error { got = q; return enough }
	newWorld(t, f).run("events", "--session", "build", "--type", "fork,exit", "--type", "lost", "--snapshot")
	want := api.EventsQuery{Session: "build", Types: []api.EventType{"fork", "exit", "lost"}, Snapshot: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked %v, want %v", got, want)
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

// A locale without UTF-8 gets ASCII, unless the user asks for the other.
func TestTreeLocale(t *testing.T) {
	for _, tt := range []struct {
		locale, line string
		ascii        bool
	}{
		{"", "tree", false}, {"C.UTF-8", "tree", false}, {"C", "tree", true}, {"C", "tree --plain=false", false}, {"", "tree --plain", true},
		{"C", "top", true}, {"", "top", false}, // off a terminal it is the tree
	} {
		w := newWorld(t, newFake())
		w.vars["LC_ALL"] = tt.locale
		_, out, stderr := w.run(strings.Fields(tt.line)...)
		if ascii := !strings.ContainsFunc(out, func(r rune) bool { return r > '~' }); out == "" || ascii != tt.ascii {
			t.Errorf("%q %s: ASCII %t; %s%s", tt.locale, tt.line, ascii, out, stderr)
		}
	}
}

// A sandbox is said to hide what runs inside.
func TestTreeTellsSandboxes(t *testing.T) {
	f := newFake()
	f.Has.Trees = map[string]*api.Tree{f.Has.Sessions[0].ID: {Session: &f.Has.Sessions[0], Roots: []api.Ref{ref(1)}, Nodes: []api.Node{{Process: live(1, "firecracker")}}}}
	_, stdout, _ := newWorld(t, f).run("tree", f.Has.Sessions[0].ID)
	require.Contains(t, stdout, "1 firecracker  virtual machine, what runs inside is not seen\n")
}

// With --calls what a tool call started is below the call, also where its creator is shown elsewhere. Every
// process is drawn once.
func TestTreeByCall(t *testing.T) {
	f := newFake()
	node := func(pid, creator int, calls ...string) api.Node {
		n := api.Node{Process: live(pid, fmt.Sprintf("p%d", pid))}
		if creator != 0 {
			n.Creator = new(ref(creator))
		}
		for _, id := range calls {
			n.Calls = append(n.Calls, api.Call{ID: id, Tool: "Bash", Claimed: true})
		}
		return n
	}
	nodes := []api.Node{node(1, 0), node(2, 1), node(3, 1, "one"), node(4, 3, "one"), node(5, 1, "two"), node(6, 1, "one", "two"), node(7, 4, "inner"), node(8, 9, "one")}
	for i := range nodes {
		for _, n := range nodes {
			if n.Creator != nil && *n.Creator == nodes[i].Ref {
				nodes[i].Children = append(nodes[i].Children, n.Ref)
			}
		}
	}
	f.Has.Trees = map[string]*api.Tree{f.Has.Sessions[0].ID: {Session: &f.Has.Sessions[0], Roots: []api.Ref{ref(1)}, Nodes: nodes}}
	code, stdout, stderr := newWorld(t, f).run("tree", f.Has.Sessions[0].ID, "--calls", "--plain")
	var got []string
	for line := range strings.Lines(stdout) {
		if w := strings.Fields(line); strings.Contains(line, "tool call") && !strings.Contains(line, " p") {
			got = append(got, strings.TrimSpace(line))
		} else if at := strings.Index(line, " p"); at >= 0 && len(w) > 2 {
			got = append(got, strings.TrimLeft(line[:at], "`|- LRSX"))
		}
	}
	want := []string{"1", "2", "tool call Bash one (claimed)", "3", "4", "8", "tool call Bash two (claimed)", "5",
		"one of 2 tool calls: Bash one, Bash two (claimed)", "6", "tool call Bash inner (claimed)", "7"}
	if code != 0 || stderr != "" || !slices.Equal(got, want) {
		t.Errorf("exit %d, %s\n%q, want\n%q\n%s", code, stderr, got, want, stdout)
	}
}
