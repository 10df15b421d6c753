package text

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Graphs are the values of --format.
var Graphs = []string{"dot", "mermaid"}

const (
	labelWidth = 100 // of a command, and of a session's title
	// Mermaid draws at most 500 edges and 50,000 characters by default.
	mermaidNodes, mermaidBytes = 300, 45_000
)

// syntax is how a language of graphs is written. Labels are escaped already.
type syntax struct {
	open, close    string
	subgraph, shut string // of a session: its number and label
	node           func(id int, label, class string) string
	edge           string // of two ids
	escape         func(string) string
	line           string // begins another line in a label
	nodes, bytes   int    // that can be drawn; 0: any number
}

var syntaxes = map[string]*syntax{
	"dot": {
		open:     "digraph lineage {\n  rankdir=LR;\n  node [shape=box, style=\"rounded\", fontname=\"monospace\"];",
		close:    "}",
		subgraph: "  subgraph cluster_%d {\n    label=\"%s\";",
		shut:     "  }",
		node: func(id int, label, class string) string {
			return fmt.Sprintf("    n%d [label=\"%s\"%s];", id, label, dotClasses[class])
		},
		edge:   "    n%d -> n%d;",
		escape: dotEscape,
		line:   `\n`,
	},
	"mermaid": {
		open:     "flowchart LR\n  classDef dead stroke-dasharray:4\n  classDef orphan stroke:#d33,stroke-width:2px\n  classDef zombie stroke:#d33,stroke-dasharray:4",
		subgraph: "  subgraph s%d[\"%s\"]",
		shut:     "  end",
		node: func(id int, label, class string) string {
			if class != "" {
				class = ":::" + class
			}
			return fmt.Sprintf("    n%d[\"%s\"]%s", id, label, class)
		},
		edge:   "    n%d --> n%d",
		escape: mermaidEscape,
		line:   "<br/>",
		nodes:  mermaidNodes,
		bytes:  mermaidBytes,
	},
}

var dotClasses = map[string]string{
	"dead": `, style="rounded,dashed"`, "orphan": `, color="#dd3333", penwidth=2`, "zombie": `, style="rounded,dashed", color="#dd3333"`,
}

// dotEscape is text in a quoted string of Graphviz, which knows escapes and entities.
func dotEscape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, `&amp;`).Replace(text)
}

// mermaidEscape is text in a quoted label of Mermaid. Characters that are special in
// Mermaid, its comments and directives, or in HTML, are written as numbers.
func mermaidEscape(text string) string {
	var b strings.Builder
	for _, r := range text {
		plain := r >= utf8.RuneSelf || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" -_./:=,@+", r)
		if plain {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// Graph draws trees in the language of a graph, for reports to others: redact hides secrets
// in arguments.
func Graph(trees []api.Tree, language string, redact func([]string) []string) Listing {
	return Listing{Text: func(p *Page) {
		g := &graph{lang: syntaxes[language], p: p, redact: redact}
		p.Line("%s", g.lang.open)
		for i := range trees {
			g.tree(i, &trees[i])
		}
		if g.left > 0 {
			p.Line("%s", g.lang.node(g.drawn, g.lang.escape(fmt.Sprintf("… %d more", g.left)), ""))
		}
		if g.lang.close != "" {
			p.Line("%s", g.lang.close)
		}
	}}
}

// graph is a graph that is being built.
type graph struct {
	lang   *syntax
	p      *Page
	redact func([]string) []string
	drawn  int // nodes
	bytes  int // of their lines, and of those of the sessions
	left   int // processes for which there was no room
}

// full reports whether the limit of nodes is reached.
func (g *graph) full() bool {
	return g.lang.nodes > 0 && (g.drawn >= g.lang.nodes || g.bytes >= g.lang.bytes)
}

func (g *graph) tree(number int, t *api.Tree) {
	if g.full() {
		g.left += len(t.Nodes)
		return
	}
	title := "processes"
	if t.Session != nil {
		title = strings.Join(strings.Fields("session "+t.Session.Name+" "+t.Session.ID), " ")
	}
	title = g.lang.escape(Fit(display.Text(title), labelWidth))
	g.bytes += len(title) + len(g.lang.subgraph) + len(g.lang.shut)
	g.p.Line(g.lang.subgraph, number, title)
	d := newDrawing(g.p, t, false)
	ids := map[api.Ref]int{}
	stack := d.steps(t.Roots, 0, nil)
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = append(stack[:len(stack)-1], d.steps(s.node.Children, s.depth+1, nil)...)
		if g.full() {
			g.left += s.times
			continue
		}
		id := g.drawn
		ids[s.node.Ref], g.drawn = id, g.drawn+1
		line := g.lang.node(id, g.label(d, s), class(&s.node.Process))
		g.bytes += len(line) + len(g.lang.edge)
		g.p.Line("%s", line)
		if s.node.Creator != nil {
			if creator, ok := ids[*s.node.Creator]; ok {
				g.p.Line(g.lang.edge, creator, id)
			}
		}
	}
	g.p.Line("%s", g.lang.shut)
}

// class is how the node of a process is drawn.
func class(p *api.Process) string {
	switch {
	case p.State == api.StateExited:
		return "dead"
	case p.State == api.StateZombie:
		return "zombie"
	case p.Orphan:
		return "orphan"
	}
	return ""
}

// label is the text of a node: the process and its state.
func (g *graph) label(d *drawing, s step) string {
	n := s.node
	command := Fit(display.Command(g.redact(n.Argv), n.Comm, n.ArgvTruncated, labelWidth), labelWidth)
	note := ""
	switch {
	case n.State != api.StateLive:
		note = howEnded(&n.Process)
	case n.Orphan && n.Parent != nil && !d.dead(*n.Parent):
		note = "orphan, parent " + d.parent(n.Parent)
	case n.Orphan:
		note = "orphan"
	}
	if s.times > 1 {
		command += fmt.Sprintf(" ×%d", s.times)
	}
	label := g.lang.escape(fmt.Sprintf("%d %s", n.PID, command))
	if note != "" {
		label += g.lang.line + g.lang.escape(display.Text(note))
	}
	return label
}
