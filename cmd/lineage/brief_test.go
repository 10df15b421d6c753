package main

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// server is the command line of a process that calls itself vite.
var server = []string{"/home/ada/.local/share/pyenv/versions/3.11.7/bin/python3", "/home/ada/projects/shop/srv.py", "5173"}

// serverFake has the server in place of the orphan.
func serverFake() *apitest.Client {
	f := newFake()
	become := func(p *api.Process) {
		if p.PID == 4130 {
			p.Comm, p.Argv = "vite", server
		}
	}
	for _, t := range f.Has.Trees {
		for i := range t.Nodes {
			become(&t.Nodes[i].Process)
		}
	}
	for _, w := range f.Has.Whys {
		become(&w.Process)
		for i := range w.Edges {
			become(&w.Edges[i].Child)
		}
	}
	for i := range f.Has.Orphans.Items {
		become(&f.Has.Orphans.Items[i].Process)
	}
	for i := range f.Has.Report.Processes {
		if o := &f.Has.Report.Processes[i]; o.PID == 4130 {
			o.Comm, o.Argv = "vite", server
		}
	}
	return f
}

// On a terminal of the usual width the directories of a program hide neither its name nor
// its script. A wide page has them.
func TestProgramFirst(t *testing.T) {
	for _, line := range []string{"tree build", "why 4130", "why :8080", "ls --left", "end --dry-run build", "end -y build"} {
		text := onTerminal(t, serverFake(), 80, strings.Fields(line)...)
		require.Contains(t, text, "vite · python")
		_, wide, _ := newWorld(t, serverFake()).run(append(strings.Fields(line), "-o", "wide")...)
		require.Contains(t, wide, strings.Join(server, " "))
		if strings.Contains(text, "pyenv") || strings.Contains(wide, "vite ·") {
			t.Errorf("%s: %s\n%s", line, text, wide)
		}
	}
}

// Where nothing is cut, no row is padded to the longest command line of another one, nor to
// another long cell.
func TestPadding(t *testing.T) {
	f := serverFake()
	long := strings.Repeat("x", 3000)
	for i := range f.Has.Orphans.Items {
		if o := &f.Has.Orphans.Items[i]; o.PID == 4130 {
			o.Argv = append(o.Argv, long)
		}
	}
	f.Has.Whys[4130].Edges[0].Child.Argv = append(server, long)
	for i := range f.Has.Trees["k3x9q2"].Nodes {
		if n := &f.Has.Trees["k3x9q2"].Nodes[i]; n.PID == 4130 {
			n.Argv = append(n.Argv, long)
		}
	}
	for i := range 500 {
		f.Has.Sessions[0].Ports = append(f.Has.Sessions[0].Ports, 10000+i)
	}
	f.Has.Report.Processes[0].Argv = append(f.Has.Report.Processes[0].Argv, long)
	for _, line := range []string{
		"ls", "tree build", "why 4130", "why :8080", "ls --left", "end --dry-run build", "end -y build", "history",
		"ls --columns command,ports,id", "ls --left --columns command,pid",
	} {
		for _, format := range []string{"table", "wide"} {
			_, out, _ := newWorld(t, f).run(append(strings.Fields(line), "-o", format)...)
			if strings.Contains(out, strings.Repeat(" ", 60)) {
				t.Errorf("%s -o %s is padded: %s", line, format, out)
			}
			if strings.Contains(out, " \n") {
				t.Errorf("%s -o %s: blanks at the end of a line: %s", line, format, out)
			}
		}
	}
}
