package tui

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	"github.com/charmbracelet/x/ansi"
)

// hints are the keys of the footer.
func (m *model) hints() []key.Binding {
	k := m.keys
	back := k.Escape
	up, down := k.Up, k.Down
	switch m.focus {
	case onDetails:
		end := k.EndSession
		end.SetHelp("x", "end")
		return []key.Binding{back, end, up, down, k.PageUp, k.PageDown, k.Quit}
	case onHelp:
		return []key.Binding{back, up, down, k.PageUp, k.PageDown, k.Quit}
	}
	return k.ShortHelp()
}

// keysThatFit is the footer: the first hints, whole ones.
func (m *model) keysThatFit() string {
	hints := m.hints()
	for i := range hints {
		h := hints[i].Help()
		hints[i].SetHelp(m.theme.keys.Replace(h.Key), h.Desc)
	}
	for {
		s := m.footer.ShortHelpView(hints)
		if w := ansi.StringWidth(s); w <= m.width {
			return s + strings.Repeat(" ", m.width-w)
		}
		hints = hints[:len(hints)-1]
	}
}

// helpLines is every key, and what the rows mean.
func (m *model) helpLines(columns int) []string {
	var lines []string
	put := func(p paint, s string) {
		l := m.line(columns)
		l.put(p, s)
		lines = append(lines, l.full())
	}
	// entry says what something is for, in as many lines as it takes.
	entry := func(p paint, what, does string) {
		const indent = 17
		for _, part := range wrap(does, columns-indent-1) {
			l := m.line(columns)
			l.put(p, fmt.Sprintf("   %-*s", indent-4, what))
			l.put(paint{}, " "+strings.TrimLeft(part, " "))
			lines = append(lines, l.full())
			what = ""
		}
	}
	text := func(p paint, indent, s string) {
		for _, part := range wrap(s, columns-len(indent)-1) {
			put(p, indent+strings.TrimLeft(part, " "))
		}
	}
	keys := func(title string, all []key.Binding) {
		put(m.theme.strong, " "+title)
		for _, k := range all {
			entry(m.theme.key, m.theme.keys.Replace(k.Help().Key), k.Help().Desc)
		}
	}
	t := m.theme
	text(paint{}, " ", "To end a session: select it or any of its processes and press x.")
	text(paint{}, " ", "To see why a process belongs to its session: select it and press Enter.")
	if now := m.warnings(); len(now) > 0 {
		put(t.strong, " Now")
		for _, w := range now {
			text(w.paint, "   ", w.long)
		}
	}
	put(t.strong, " Rows")
	for _, s := range []struct {
		look
		means string
	}{
		{look{t.live, t.glyphs.live, "S"}, "live; R S D T: the kernel's state; L: it was not asked"},
		{look{t.moved, t.glyphs.moved, "S"}, "live, and its parent is not who created it"},
		{look{t.exited, t.glyphs.exited, "X"}, "exited, with its code or signal"},
		{look{t.zombie, " ", t.glyphs.zombie}, "zombie: exited, its parent has to reap it"},
		{look{t.ended, t.glyphs.ended, "E"}, "ended by us"},
	} {
		entry(s.paint, s.glyph+s.letter, s.means)
	}
	for _, g := range m.keys.Groups() {
		keys(g.Title, g.Keys)
	}
	keys("In the dialog that ends", newDialogKeys().all())
	return lines
}
