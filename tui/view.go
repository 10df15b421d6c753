package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/panes"
)

// The smallest readable terminal, the smallest one with frames around panes, and the
// smallest one with the details beside the tree.
const (
	leastColumns, leastRows   = 24, 8
	framedColumns, framedRows = 60, 16
	besideColumns, besideRows = 110, 24
)

// tooSmall reports whether nothing is drawn. Then keys do nothing either, or a user
// could confirm something invisible.
func (m *model) tooSmall() bool {
	return m.term.width < leastColumns || m.term.height < leastRows
}

// layout is where the panes are, in columns and lines of the screen.
type layout struct {
	framed bool
	tree   int // columns of the pane at the left, or all
	detail int // columns of the details beside it, 0: not shown
	body   int // lines of these two
	log    int // lines of the events below, 0: not shown
}

// edge is the columns of a pane that its frame takes at one side.
func (l layout) edge() int {
	if l.framed {
		return 1
	}
	return 0
}

// inner is how wide the lines of the left pane are.
func (l layout) inner() int { return l.tree - 2*l.edge() }

// lines is how many lines a pane of that height has inside, its head not counted.
func (l layout) lines(rows int) int { return max(rows-1-l.edge(), 1) }

func (m *model) layout() layout {
	width, height := m.term.width, m.term.height
	l := layout{framed: width >= framedColumns && height >= framedRows, tree: width}
	l.body = max(height-1-len(m.banners())-len(m.bottom()), 2)
	if m.events != nil && l.body >= 12 {
		l.log = max(l.body/3, 5)
		l.body -= l.log
	}
	if width >= besideColumns && height >= besideRows && m.timeline == nil && m.focus != onHelp {
		l.detail = min(max(width*2/5, 44), 72)
		// A table needs its whole width. It has few figures less than the details.
		if m.view.SessionsFolded() && m.focus != onDetails && width-l.detail < besideColumns {
			l.detail = 0
		}
		l.tree -= l.detail
	}
	return l
}

func (m *model) arrange() {
	l := m.layout()
	m.view.SetHeight(l.lines(l.body))
	if !m.opened && m.link.known && m.term.height > 0 {
		m.opened = true
		m.view.FoldIfTooMany()
	}
	if m.timeline != nil {
		m.timeline.SetHeight(l.lines(l.body) - 1)
	}
	columns := l.inner()
	switch m.focus {
	case onDetails:
		if l.detail > 0 {
			columns = l.detail - 2*l.edge()
		}
		m.fill(m.details(columns), columns, l)
	case onHelp:
		m.fill(m.helpLines(columns), columns, l)
	}
}

// fill gives the viewport its lines. It scrolls only if it must.
func (m *model) fill(lines []string, columns int, l layout) {
	m.scroll.SetWidth(columns)
	m.scroll.SetHeight(l.lines(l.body))
	m.scroll.SetContentLines(lines)
}

func (m *model) details(columns int) []string {
	return panes.DetailLines(m.labels(), m.view.Selected(), m.asked.why, m.readOnly() != "", columns)
}

func (m *model) View() tea.View {
	v := tea.View{AltScreen: true, WindowTitle: "lineage top"}
	if m.tooSmall() {
		v.Content = ansi.Truncate(fmt.Sprintf("at least %dx%d", leastColumns, leastRows),
			max(m.term.width, 0), "")
		return v
	}
	l := m.layout()
	lines := append([]string{m.statusLine()}, m.body(l)...)
	if l.log > 0 {
		lines = append(lines, m.log(l)...)
	}
	lines = append(lines, m.banners()...)
	lines = append(lines, m.bottom()...)
	if m.dialog != nil {
		overlay(lines, m.dialog.Lines(m.labels(), m.term.width, m.term.height), m.term.width)
	}
	if len(lines) > m.term.height {
		lines = lines[:m.term.height]
	}
	if v.Content = strings.Join(lines, "\n"); m.opts.ASCII {
		v.Content = display.ASCII(v.Content)
	}
	if m.prompt != nil && m.dialog == nil {
		if c := m.prompt.input.Cursor(); c != nil && c.X < m.term.width {
			c.Y = m.term.height - 1
			v.Cursor = c
		}
	}
	return v
}

// body is the tree, or what replaces it, and the details beside it.
func (m *model) body(l layout) []string {
	switch {
	case m.focus == onHelp:
		return m.pane(l, ink.Frame{Title: "Help", Focused: true}, m.scrolled(), l.tree, l.body)
	case m.focus == onDetails && l.detail == 0:
		return m.pane(l, ink.Frame{Title: m.detailTitle(), Focused: true}, m.scrolled(), l.tree, l.body)
	case m.timeline != nil:
		f := m.sessionFrame("Timeline", m.timeline.Session, m.timeline.Note(), m.focus == onTree)
		f.Legend = panes.TimelineLegend(m.labels(), l.tree-4-ink.Width(f.Foot))
		return m.pane(l, f, m.timelineLines(l), l.tree, l.body)
	}
	tree := m.pane(l, m.treeFrame(l), m.tree(l), l.tree, l.body)
	if l.detail == 0 {
		return tree
	}
	f := ink.Frame{Title: m.detailTitle(), Focused: m.focus == onDetails}
	lines := m.details(l.detail - 2*l.edge())
	if f.Focused {
		lines = m.scrolled()
	} else if more := len(lines) - l.lines(l.body); more > 0 {
		f.Foot = m.note(fmt.Sprintf("%d more", more))
	}
	for i, s := range m.pane(l, f, lines, l.detail, l.body) {
		tree[i] += s
	}
	return tree
}

func (m *model) scrolled() []string { return strings.Split(m.scroll.View(), "\n") }

func (m *model) detailTitle() string {
	if r := m.view.Selected(); r != nil {
		return m.labels().Row(r)
	}
	return "Details"
}

// pane draws lines in a frame, or below a heading line if there is no room for frames.
func (m *model) pane(l layout, f ink.Frame, lines []string, columns, rows int) []string {
	t := m.term.theme
	if l.framed {
		return t.Box(f, lines, columns, rows)
	}
	head := t.Line(columns)
	head.Put(t.Strong, t.Fit(f.Title, max(columns-ink.Width(f.Head)-1, 0)))
	text := head.String() + strings.Repeat(" ", max(head.Left-ink.Width(f.Head), 0)) + f.Head
	box := append(make([]string, 0, rows), text)
	for i := range rows - 1 {
		if i < len(lines) {
			box = append(box, lines[i])
		} else {
			box = append(box, strings.Repeat(" ", columns))
		}
	}
	return box
}

func (m *model) note(s string) string {
	if s == "" {
		return ""
	}
	return m.term.theme.Dim.Of(" " + s + " ")
}

// sessionFrame is the border of a pane about one session.
func (m *model) sessionFrame(title, session, note string, focused bool) ink.Frame {
	if s := m.view.Picture.Session(session); s != nil {
		title += " of " + m.labels().Row(s)
	}
	return ink.Frame{Title: title, Focused: focused, Foot: m.note(note)}
}

func (m *model) timelineLines(l layout) []string {
	labels := m.labels()
	lines := m.timeline.Lines(labels, l.inner())
	if err := m.timeline.Err; err != nil {
		lines = append(lines, labels.Text(labels.Warn, " ! only what is in the tree: "+display.Error(err), l.inner()))
	}
	return lines
}

func (m *model) log(l layout) []string {
	f := m.sessionFrame("Events", m.events.Session, m.events.Note(), m.focus == onEvents)
	columns := m.term.width
	return m.pane(l, f, m.events.Lines(m.labels(), columns-2*l.edge(), l.lines(l.log)), columns, l.log)
}

// overlay draws box over the middle of lines of that width.
func overlay(lines, box []string, width int) {
	top := max((len(lines)-len(box))/2, 0)
	for i, b := range box {
		if top+i == len(lines) {
			return
		}
		columns := ansi.StringWidth(b)
		left := (width - columns) / 2
		under := lines[top+i]
		before := ansi.Truncate(under, left, "")
		lines[top+i] = before + ansi.ResetStyle + strings.Repeat(" ",
			left-ansi.StringWidth(before)) + b + ansi.TruncateLeft(under, left+columns, "")
	}
}

// treeFrame is the border of the tree: what is shown, the columns, and how many rows
// are not shown.
func (m *model) treeFrame(l layout) ink.Frame {
	v, t := m.view, m.term.theme
	f := ink.Frame{Title: "Sessions", Focused: m.focus == onTree}
	if filter := v.Picture.Filter(); filter != nil {
		f.Title += ": filter " + display.Text(filter.Text)
	}
	gap := " "
	if l.framed {
		gap = t.Horizontal
	}
	f.Head = m.columnSet().Head(t, v.Order(), gap)
	if n := v.Hidden(); n > 0 {
		f.Foot = m.note(fmt.Sprintf("%d exited hidden", n))
	}
	return f
}

// helpLines is every key, and what the rows mean.
func (m *model) helpLines(width int) []string {
	t := m.term.theme
	var lines []string
	put := func(p ink.Paint, s string) { lines = append(lines, t.Text(p, s, width)) }
	// entry says what something is for, in as many lines as needed.
	entry := func(p ink.Paint, what, does string) {
		const indent = 17
		for _, part := range ink.Wrap(does, width-indent-1) {
			l := t.Line(width)
			l.Put(p, fmt.Sprintf("   %-*s", indent-4, what))
			l.Put(ink.Paint{}, " "+strings.TrimLeft(part, " "))
			lines = append(lines, l.Full())
			what = ""
		}
	}
	text := func(p ink.Paint, indent, s string) {
		for _, part := range ink.Wrap(s, width-len(indent)-1) {
			put(p, indent+strings.TrimLeft(part, " "))
		}
	}
	text(ink.Paint{}, " ", "To end a session: select it or any of its processes and press x.")
	text(ink.Paint{}, " ", "To see why a process belongs to its session: select it and press Enter.")
	if now := m.warnings(); len(now) > 0 || m.link.status.Mode == "observe" {
		put(t.Strong, " Now")
		for _, w := range now {
			text(w.Paint, "   ", w.long)
		}
		if m.link.status.Mode == "observe" {
			text(t.Key, "   ", "policy: observe: automatic rules only log; x and X still kill")
		}
	}
	put(t.Strong, " Rows")
	for _, s := range []struct {
		panes.Look
		means string
	}{
		{panes.Look{Paint: t.Live, Glyph: t.LiveGlyph, Letter: " "}, "live; T: stopped by a signal"},
		{panes.Look{Paint: t.Moved, Glyph: t.MovedGlyph, Letter: " "},
			"live, and its parent is not its creator; " + t.MovedGlyph + "7 sh: an orphan, its creator 7 sh is dead"},
		{panes.Look{Paint: t.Exited, Glyph: t.ExitedGlyph, Letter: "X"},
			"exited: its code or signal, and " + t.Died + " how long ago"},
		{panes.Look{Paint: t.Zombie, Glyph: " ", Letter: "Z"},
			"zombie: exited, but " + t.Up + "7 sh, its parent, has not reaped it"},
		{panes.Look{Paint: t.Ended, Glyph: t.EndedGlyph, Letter: "E"}, "ended by us"},
	} {
		entry(s.Paint, s.String(), s.means)
	}
	entry(t.Key, m.labels().ShortCall(&api.Call{Tool: "Bash", ID: "Ab3"}, ""),
		"the agent's tool call that started it, by what the agent claims")
	for _, g := range m.keys.Groups() {
		put(t.Strong, " "+g.Title)
		for _, k := range g.Keys {
			entry(t.Key, k.Help().Key, k.Help().Desc)
		}
	}
	return lines
}
