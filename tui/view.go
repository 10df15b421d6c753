package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// The least terminal that has the details beside the tree.
const (
	besideColumns = 80
	besideRows    = 24
)

// The least terminal that anything can be read on.
const (
	leastColumns = 24
	leastRows    = 8
)

// tooSmall tells that nothing is drawn. Then keys do nothing either, or one
// could confirm what one cannot see.
func (m *model) tooSmall() bool { return m.width < leastColumns || m.height < leastRows }

// beside tells that the details are drawn beside the tree.
func (m *model) beside() bool {
	return m.width >= besideColumns && m.height >= besideRows
}

// hasDetails tells that details are drawn at all.
func (m *model) hasDetails() bool { return m.beside() || m.focus == onDetails }

// detailColumns is how wide the details are beside the tree.
func (m *model) detailColumns() int {
	if !m.beside() {
		return 0
	}
	return min(m.width*2/5, 72)
}

// bodyRows is how many lines are between the status line and the banners.
func (m *model) bodyRows() int {
	return max(m.height-2-len(m.banners()), 1)
}

// arrange fits everything to the terminal.
func (m *model) arrange() {
	rows := m.bodyRows()
	if m.lanes {
		rows-- // the axis
	}
	m.view.SetHeight(rows)
	switch m.focus {
	case onDetails:
		columns := m.detailColumns()
		if columns == 0 {
			columns = m.width
		}
		m.fill(m.details(columns), columns)
	case onHelp:
		m.fill(m.helpLines(m.width), m.width)
	}
}

// fill gives the viewport its lines. It is only moved where it must be.
func (m *model) fill(lines []string, columns int) {
	m.scroll.SetWidth(columns)
	m.scroll.SetHeight(m.bodyRows())
	m.scroll.SetContentLines(lines)
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.View{AltScreen: true, WindowTitle: "lineage top"}
	if m.tooSmall() {
		v.Content = ansi.Truncate(fmt.Sprintf("at least %dx%d", leastColumns, leastRows), max(m.width, 0), "")
		return v
	}
	lines := append([]string{m.statusLine()}, m.body()...)
	lines = append(lines, m.banners()...)
	lines = append(lines, m.bottom())
	if m.dialog != nil {
		m.overlay(lines, m.dialogLines())
	}
	if len(lines) > m.height {
		lines = lines[:m.height]
	}
	v.Content = strings.Join(lines, "\n")
	if m.prompt != nil && m.dialog == nil {
		if c := m.prompt.input.Cursor(); c != nil && c.X < m.width {
			c.Y = m.height - 1
			v.Cursor = c
		}
	}
	return v
}

// body is what is between the status line and the banners.
func (m *model) body() []string {
	rows := m.bodyRows()
	switch {
	case m.focus == onHelp, m.focus == onDetails && !m.beside():
		return m.padded(strings.Split(m.scroll.View(), "\n"), rows, m.width)
	case !m.beside():
		return m.padded(m.tree(m.width), rows, 0)
	}
	columns := m.detailColumns()
	tree := m.padded(m.tree(m.width-columns-1), rows, m.width-columns-1)
	var details []string
	if m.focus == onDetails {
		details = strings.Split(m.scroll.View(), "\n")
	} else {
		details = m.details(columns)
	}
	rule := m.theme.dim
	if m.focus == onDetails {
		rule = m.theme.key
	}
	for i := range tree {
		tree[i] += rule.of(m.theme.rule)
		if i < len(details) {
			tree[i] += details[i]
		}
	}
	return tree
}

// padded gives exactly so many lines.
func (m *model) padded(lines []string, rows, columns int) []string {
	for len(lines) < rows {
		lines = append(lines, strings.Repeat(" ", columns))
	}
	return lines[:rows]
}

// overlay draws box over the middle of lines.
func (m *model) overlay(lines, box []string) {
	top := max((len(lines)-len(box))/2, 0)
	for i, b := range box {
		if top+i < len(lines) {
			lines[top+i] = b
		}
	}
}
