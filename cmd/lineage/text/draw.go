package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// maxIndent limits how many levels are drawn as lines: deeper rows show their depth
// instead. A chain of 5,000 processes would be 75 MB of bars.
const maxIndent = 32

// The characters that draw a tree. Letters always accompany those of states.
const (
	tee, elbow, bar, indented = "├─ ", "└─ ", "│  ", "   "
	moved                     = "↷ "
)

type drawing struct {
	p     *Page
	t     *api.Tree
	nodes map[api.Ref]*api.Node
	drawn map[api.Ref]bool // a node with its ancestor as child must not make us loop
}

// step is a group of equal rows to draw.
type step struct {
	node  *api.Node
	times int
	depth int
	lines []string // the indents of its ancestors, outermost first
	last  bool
}

func (d *drawing) draw() {
	if d.t.Session != nil {
		d.p.Line("%s", d.p.paint(bold, Title(d.t.Session)))
	}
	stack := d.steps(d.t.Roots, 0, nil)
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		d.row(s)
		lines := s.lines
		if s.depth > 0 {
			indent := bar
			if s.last {
				indent = indented
			}
			lines = append(lines[max(0, len(lines)-maxIndent+1):len(lines):len(lines)], indent)
		}
		stack = append(stack, d.steps(s.node.Children, s.depth+1, lines)...)
	}
	if s := d.t.Session; s != nil {
		for i := range s.Delegated {
			d.p.Line("%s", display.Delegated(&s.Delegated[i], s.ID))
		}
	}
}

// steps returns the rows for refs in reverse order. Equal processes without children share the
// row of the first of them: exited ones, and live ones if they are many.
func (d *drawing) steps(refs []api.Ref, depth int, lines []string) []step {
	var nodes []*api.Node
	for _, ref := range refs {
		if n, ok := d.nodes[ref]; ok && !d.drawn[ref] {
			d.drawn[ref] = true
			nodes = append(nodes, n)
		}
	}
	var steps []step
	for _, like := range display.Alike(nodes, d.likeness) {
		steps = append(steps, step{node: like[0], times: len(like), depth: depth, lines: lines})
	}
	if len(steps) > 0 {
		steps[len(steps)-1].last = true
	}
	slices.Reverse(steps)
	return steps
}

// likeness is what a process without children has in common with those that share its row, if they are at least so
// many; 0: it shares none.
func (d *drawing) likeness(of **api.Node) (same string, least int) {
	n := *of
	if len(n.Children) > 0 || d.p.Wide {
		return "", 0
	}
	about := display.HowEnded(&n.Process)
	if least = 2; n.State != api.StateExited {
		about, least = d.notes(&n.Process), display.Equal+1
	}
	return strings.Join(append([]string{string(n.State), n.Comm, about}, n.Argv...), "\x00"), least
}

func (d *drawing) row(s step) {
	n, p := s.node, d.p
	prefix := strings.Join(s.lines, "")
	if s.depth > maxIndent {
		prefix = fmt.Sprintf("[%d] ", s.depth) + prefix
	}
	if s.depth > 0 {
		branch := tee
		if s.last {
			branch = elbow
		}
		prefix += branch
	}
	glyph, letter, color := "● ", cmp.Or(display.Text(n.Task), "L"), green
	switch n.State {
	case api.StateExited:
		glyph, letter, color = "○ ", "X", dim
	case api.StateZombie:
		glyph, letter, color = "  ", "Z", red
	case "":
		letter, color = "?", yellow // only another process has named it
	}
	pid := fmt.Sprint(n.PID)
	if p.Wide {
		pid = n.Ref.String()
	}
	if n.NSPID != 0 && n.NSPID != n.PID {
		pid += fmt.Sprintf(" (%d inside)", n.NSPID)
	}
	command, times := p.Command(&n.Process), ""
	if s.times > 1 {
		times = fmt.Sprintf(" ×%d", s.times)
	}
	notes := d.notes(&n.Process)
	if p.Width > 0 && !p.Wide {
		used := width(prefix) + width(glyph) + len(letter) + 1 + len(pid) +
			1 + width(times) + width(notes)
		command = Fit(command, max(p.Width-used, 16))
	}
	command += times
	rest := fmt.Sprintf(" %s %s%s", pid, command, notes)
	switch {
	case n.State == api.StateExited:
		p.Line("%s%s", prefix, p.paint(dim, glyph+letter+rest))
	case n.Orphan:
		p.Line("%s%s %s %s%s", prefix, p.paint(color, glyph+letter), pid, command, p.paint(yellow, notes))
	default:
		p.Line("%s%s%s", prefix, p.paint(color, glyph+letter), rest)
	}
}

// notes adds what the row's place and letter do not show.
func (d *drawing) notes(n *api.Process) string {
	var b strings.Builder
	note := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format, args...) }
	switch {
	case n.State == api.StateExited:
		note("%s", display.HowEnded(n))
		if n.Exited != nil {
			note("%s ago", d.p.since(n.Exited))
		}
	case n.State == api.StateZombie:
		note("%s, its parent %s has to reap it", display.HowEnded(n), d.parent(n.Parent))
	case n.Orphan && n.Parent != nil && !d.dead(*n.Parent):
		note("%sorphan, parent %s", moved, d.parent(n.Parent))
	case n.Orphan:
		note("%sorphan", moved)
	case n.Parent != nil && n.Creator != nil && n.Parent.PID != n.Creator.PID:
		note("%sparent %s", moved, d.parent(n.Parent))
	}
	if n.Stopped != nil {
		note("%s", display.Stopped(n))
	}
	if what := display.Sandbox(n); what != "" && n.State == api.StateLive {
		note("%s", what)
	}
	if e := n.Evidence; e != nil && e.Kind != "fork" && e.Kind != "root" {
		note("%s", display.Evidence(e))
	}
	if calls := display.Calls(n.Calls); calls != "" && calls != d.callsOf(n.Creator) {
		note("%s", calls)
	}
	if d.p.Wide {
		if trace := display.Trace(n.Trace); trace != "" && n.Trace.From == n.Ref {
			note("%s", trace)
		}
		for _, fact := range display.Facts(n) {
			note("%s", fact)
		}
		if n.State == api.StateLive && n.RSSBytes > 0 { // 0: not measured yet
			note("cpu %s  rss %s", display.CPU(n.CPUSeconds), display.Size(n.RSSBytes))
		}
	}
	return display.Text(b.String())
}

// callsOf names the calls of a creator: the processes that it started belong to the same calls.
func (d *drawing) callsOf(creator *api.Ref) string {
	if creator == nil || d.nodes[*creator] == nil {
		return ""
	}
	return display.Calls(d.nodes[*creator].Calls)
}

// dead reports whether ref is known to have exited. An orphan's parent is shown as dead
// until its new parent is known.
func (d *drawing) dead(ref api.Ref) bool {
	n, ok := d.nodes[ref]
	return ok && n.State == api.StateExited
}

// parent names a parent and what is known about it.
func (d *drawing) parent(ref *api.Ref) string {
	if ref == nil {
		return "?"
	}
	pid := fmt.Sprint(ref.PID)
	if n, ok := d.nodes[*ref]; ok {
		return pid + " (" + cmp.Or(n.Comm, "?") + ")"
	}
	if s := d.t.Session; s != nil && s.Owner != nil && *s.Owner == *ref {
		return pid + " (lineage run)"
	}
	return pid
}
