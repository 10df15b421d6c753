package text

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/api"
)

func node(pid, creator int, argv ...string) api.Node {
	n := api.Node{Process: api.Process{Ref: api.Ref{PID: pid, StartNS: 1}, State: api.StateLive, Comm: "x", Argv: argv}}
	if creator != 0 {
		n.Creator = &api.Ref{PID: creator, StartNS: 1}
	}
	return n
}

// tree joins nodes to a tree; the first is its root.
func tree(nodes ...api.Node) api.Tree {
	t := api.Tree{Session: &api.Session{ID: "k3x9q2", Name: `a"b`}, Nodes: nodes, Roots: []api.Ref{nodes[0].Ref}}
	for i := range nodes {
		for j := range nodes {
			if nodes[j].Creator != nil && *nodes[j].Creator == nodes[i].Ref {
				nodes[i].Children = append(nodes[i].Children, nodes[j].Ref)
			}
		}
	}
	return t
}

func drawn(t *testing.T, language string, trees ...api.Tree) string {
	t.Helper()
	var b strings.Builder
	l := Graph(trees, language, func(argv []string) []string { return argv })
	if err := l.Write(NewPage(&b, time.Unix(0, 0)), "table"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hostile are process names that try to break out of a graph.
var hostile = []string{
	`"]; click n0 "javascript:alert(1)`, `%%{init: {"theme":"dark"}}%%`, "a\nend\nb", "`b`", `<img src=x onerror=alert(1)>`, `\" -> n9; //`, `\N\G\l`,
	"&lt;&#34;&quot;", `"];}`, "#quot;", "\x1b[2J\xff\u202e", "end", "subgraph x", `\`, "-->", `é 日本`, strings.Repeat("\"", 1000),
}

func hostileTree() api.Tree {
	nodes := []api.Node{node(1, 0, "sh")}
	for i, name := range hostile {
		nodes = append(nodes, node(10+i, 1, name, name))
	}
	orphan := node(100, 1, "db")
	orphan.Orphan, orphan.Parent = true, &api.Ref{PID: 7, StartNS: 1}
	zombie := node(101, 1, "z")
	zombie.State, zombie.ExitCode = api.StateZombie, new(3)
	dead := func(pid int) api.Node {
		n := node(pid, 1, "cc")
		n.State, n.Signal = api.StateExited, "SIGKILL"
		return n
	}
	return tree(append(nodes, orphan, zombie, dead(102), dead(103))...)
}

func TestGraph(t *testing.T) {
	for _, language := range Graphs {
		t.Run(language, func(t *testing.T) {
			golden.RequireEqual(t, []byte(drawn(t, language, hostileTree(), tree(node(5, 0, "other")))))
		})
	}
}

// The allowed lines of a Mermaid graph: everything that a process chose is in a quoted
// label, with characters that are not special in Mermaid.
var (
	mermaidText = `[\pL\pN\pM\pS\pP -_./:=,@+]*`
	mermaidLine = regexp.MustCompile(`^(flowchart LR|  classDef \w+ [a-z0-9:#,-]+|  subgraph s\d+\["LABEL"\]|  end|    n\d+\["LABEL(<br/>LABEL)?"\](:::\w+)?|    n\d+ --> n\d+|n\d+\["LABEL"\])$`)
	label       = regexp.MustCompile(`"[^"]*"`)
	number      = regexp.MustCompile(`#\d+;`)
)

func checkMermaid(t *testing.T, text string) {
	t.Helper()
	if len(text) > 50_000 || strings.Count(text, " --> ") > 500 {
		t.Errorf("%d bytes, %d edges", len(text), strings.Count(text, " --> "))
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		shape := label.ReplaceAllStringFunc(line, func(quoted string) string {
			inner := number.ReplaceAllString(strings.Trim(quoted, `"`), "")
			parts := strings.Split(inner, "<br/>")
			for _, part := range parts {
				if strings.ContainsAny(part, "<>#&%`{}[]();|\\\"'") || !regexp.MustCompile(`^`+mermaidText+`$`).MatchString(part) {
					t.Errorf("label %q", quoted)
				}
			}
			return `"` + strings.TrimSuffix(strings.Repeat("LABEL<br/>", len(parts)), "<br/>") + `"`
		})
		if !mermaidLine.MatchString(shape) {
			t.Errorf("line %q", line)
		}
	}
}

// A graph for Mermaid stays within what Mermaid draws, whatever its content.
func TestMermaid(t *testing.T) {
	checkMermaid(t, drawn(t, "mermaid", hostileTree()))
	many, long := []api.Node{node(1, 0, "sh")}, []api.Node{node(1, 0, "sh")}
	for i := range 5000 {
		many = append(many, node(2+i, 1, fmt.Sprint("worker", i)))
		long = append(long, node(2+i, 1, strings.Repeat(`"`, 90)))
	}
	text := drawn(t, "mermaid", tree(many...), tree(node(9, 0, "other")))
	checkMermaid(t, text)
	if !strings.Contains(text, "… 4702 more") {
		t.Errorf("says %s", text[max(len(text)-200, 0):])
	}
	checkMermaid(t, drawn(t, "mermaid", tree(long...)))

	sessions := slices.Repeat([]api.Tree{tree(node(1, 0, "sh"), node(2, 1, "make"))}, 1000)
	for i := range sessions {
		sessions[i].Session = &api.Session{ID: "k3x9q2", Name: strings.Repeat("s", 64)}
	}
	text = drawn(t, "mermaid", sessions...)
	checkMermaid(t, text)
	if drawn := strings.Count(text, "make"); !strings.Contains(text, fmt.Sprintf("… %d more", 2*(len(sessions)-drawn))) {
		t.Errorf("%d drawn, says %s", drawn, text[max(len(text)-200, 0):])
	}
}

func FuzzGraph(f *testing.F) {
	for _, name := range hostile {
		f.Add(name, name)
	}
	f.Fuzz(func(t *testing.T, name, arg string) {
		n := node(1, 0, arg)
		n.Comm, n.Signal, n.State = name, name, api.StateExited
		tr := tree(n)
		tr.Session.Name = name
		checkMermaid(t, drawn(t, "mermaid", tr))
	})
}

// Graphviz, if installed, can read its output, and finds every node.
func TestDot(t *testing.T) {
	program, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("graphviz is not installed")
	}
	cmd := exec.Command(program, "-Tplain")
	cmd.Stdin = strings.NewReader(drawn(t, "dot", hostileTree()))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if nodes := strings.Count(string(out), "\nnode "); nodes != len(hostile)+4 {
		t.Errorf("%d nodes, want %d:\n%s", nodes, len(hostile)+4, out)
	}
	if strings.Contains(string(out), "Warning") {
		t.Errorf("%s", out)
	}
}
