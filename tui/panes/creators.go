package panes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

// mostKnown limits a chain that is made of the picture.
const mostKnown = 64

// creators says why the process belongs to its session: who created it, from the root
// down, dead ones too, as lineage why draws it.
func (p *pane) creators(pr *api.Process, why *api.Why) {
	p.put(p.Strong, "creators")
	edges := p.knownEdges(pr)
	if why != nil && len(why.Edges) > 0 {
		edges = p.news(why.Edges)
	}
	chain := display.Chain(edges)
	for i := range chain {
		p.creator(&chain[i], i, i == len(chain)-1)
	}
	for i := range chain {
		for _, note := range display.StepNotes(&chain[i], p.Named, p.clock) {
			p.text(p.Moved, " ", note)
		}
	}
}

func (p *pane) clock(t *time.Time) string { return p.Clock(*t) }

// creator writes a process of a chain; last: it is the one that is shown.
func (p *pane) creator(e *api.Edge, depth int, last bool) {
	c, paint := &e.Child, ink.Paint{}
	var facts []string
	if e.Kind != "fork" && e.Kind != "root" {
		facts = append(facts, display.Text(e.Kind))
	}
	if gone := display.Gone(c, p.clock); gone != "" && !last {
		facts, paint = append(facts, gone), p.Exited
	} else if e.Time != nil {
		facts = append(facts, p.Clock(*e.Time))
	}
	const leastCommand = 12
	l, right := p.Line(p.columns), strings.Join(facts, " ")
	l.Put(p.Border, "  "+display.Indent(depth, p.columns/9+1))
	l.Put(p.Dim, fmt.Sprintf("%d ", c.PID))
	room := l.Left - ink.Width(right) - 3
	if room < leastCommand {
		room, right = l.Left-1, ""
	}
	l.Put(paint, p.Fit(p.Command(c), room))
	l.Skip(l.Left - ink.Width(right) - 1)
	l.Put(p.Dim, right)
	p.lines = append(p.lines, l.Full())
}

// news is an answer's edges with the creators' exits that the picture has had since.
func (p *pane) news(edges []api.Edge) []api.Edge {
	edges = slices.Clone(edges)
	for i := range edges {
		if c := edges[i].Creator; c != nil {
			if r := p.Picture.Process(c.Ref); r != nil && r.Process.State == api.StateExited {
				dead := *c
				dead.Alive, dead.Exited = false, r.Process.Exited
				edges[i].Creator = &dead
			}
		}
	}
	return edges
}

// knownEdges is the part of the chain that the picture has.
func (p *pane) knownEdges(pr *api.Process) (edges []api.Edge) {
	for range mostKnown {
		e := api.Edge{Child: *pr, Time: new(p.Born(pr))}
		if pr.Evidence != nil {
			e.Kind, e.Evidence = pr.Evidence.Kind, *pr.Evidence
		}
		if pr.Creator == nil {
			return append(edges, e)
		}
		e.Creator = &api.EdgeEnd{Ref: *pr.Creator}
		r := p.Picture.Process(*pr.Creator)
		if r == nil || e.Kind == "root" {
			return append(edges, e)
		}
		e.Creator.Comm, e.Creator.Alive, e.Creator.Exited = r.Process.Comm, r.Process.State != api.StateExited, r.Process.Exited
		edges, pr = append(edges, e), r.Process
	}
	return edges
}
