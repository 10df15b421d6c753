package main

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A tree and a plan of thousands of equal processes have one row for them, and rows of their own
// for those that differ; a wide page has one for each.
func TestEqualProcesses(t *testing.T) {
	const n = 5000
	f := newFake()
	tree := f.Has.Trees["k3x9q2"]
	add := func(pid int, p api.Process) {
		p = by(p, 4121, 4121)
		tree.Nodes = append(tree.Nodes, api.Node{Process: p})
		tree.Nodes[0].Children = append(tree.Nodes[0].Children, p.Ref)
	}
	for i := range n {
		pid := 10000 + 2*i
		add(pid, live(pid, "worker", strings.Repeat("x", 100)))
		switch i {
		case 100:
			add(pid+1, live(pid+1, "worker", "other"))
		case 200:
			p := live(pid+1, "worker", strings.Repeat("x", 100))
			p.Orphan = true
			add(pid+1, p)
		case 300, 400, 500:
			add(pid+1, live(pid+1, "few"))
		}
	}
	out := onTerminal(t, f, 80, "tree", "build")
	require.Equal(t, strings.Count(out, "\n"), strings.Count(onTerminal(t, newFake(), 80, "tree", "build"), "\n")+1+2+3)
	require.Contains(t, out, "10000 worker x", "… ×5000\n", " worker other\n", " few\n", "orphan")
	w := newWorld(t, f)
	w.vars["LC_ALL"] = "C"
	_, out, _ = w.run("tree", "build")
	require.Contains(t, out, "x5000\n")

	_, out, _ = newWorld(t, f).run("end", "--dry-run", "build")
	require.Contains(t, out, "  ×5001  forked by 4121 sh  worker x", "  10201  forked by 4121 sh  worker other\n")
	require.Equal(t, strings.Count(out, " few\n"), 3)
	_, before, _ := newWorld(t, newFake()).run("end", "--dry-run", "build")
	require.Equal(t, strings.Count(out, "\n"), strings.Count(before, "\n")+1+1+3)

	w = newWorld(t, f)
	asked := w.terminal("n\n")
	w.run("end", "build")
	out = asked()
	require.Contains(t, out, "  ×5001  worker x", "worker other\n")
	if lines := strings.Count(out, "\n"); lines > 15 {
		t.Errorf("%d lines: %s", lines, out)
	}

	f.On.Plan = func(p *api.Plan) error {
		for i := range p.Processes {
			switch pr := &p.Processes[i]; pr.PID {
			case 10004:
				pr.Ports = []api.Port{heldPort}
			case 10014, 10016, 10018, 10020, 10022:
				pr.Ports = []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 81, PID: pr.PID}}
			case 10024, 10026:
				pr.Ports = []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 82, PID: pr.PID}}
			case 10006, 10008, 10010, 10012:
				pr.Killable, pr.Reason = false, "state D"
			}
		}
		return nil
	}
	_, out, _ = newWorld(t, f).run("end", "--dry-run", "build")
	require.Contains(t, out, "  ×4989  ", "  10004  ", "  10006  ", "  10012  ", "  ×5     ", "  10024  ",
		"  10004 holds tcp6 [::1]:8080\n", "  10014 and 4 more hold tcp 127.0.0.1:81\n", "  10024 10026 hold tcp 127.0.0.1:82\n")

	for _, line := range []string{"tree build -o wide", "end --dry-run build -o wide"} {
		_, out, _ = newWorld(t, f).run(strings.Fields(line)...)
		require.Equal(t, strings.Count(out, "worker"), n+2)
	}
}
