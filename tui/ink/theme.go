package ink

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

var Themes = []string{"auto", "dark", "light", "mono"}

// Paint draws text in one style.
type Paint struct{ on, off string }

func (p Paint) Of(s string) string {
	if p.on == "" || s == "" {
		return s
	}
	return p.on + s + p.off
}

func painter(s lipgloss.Style) Paint {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return Paint{on, off}
}

// Theme is how everything looks. What a colour means, a glyph or a letter shows too.
type Theme struct {
	Glyphs
	Session, Live, Exited, Zombie, Ended, Moved Paint
	Strong, Dim, Warn, Bad, Key, Border         Paint
	KeyStyle                                    lipgloss.Style // of Key, for the footer

	bar, idle bar
}

// bar is the style of the selected row. A plain one draws all its text in one style.
type bar struct {
	Paint
	plain bool
}

// New makes one of Themes. Auto uses the terminal's own sixteen colours, which suit any
// background.
func New(name string) *Theme {
	t := &Theme{Glyphs: glyphs}
	switch name {
	case "mono":
		t.mono()
	case "dark":
		t.palette(shades{accent: 75, live: 114, faint: 245, zombie: 203, ended: 176,
			moved: 215, warn: 221, border: 240, bar: 24, idle: 237})
	case "light":
		t.palette(shades{accent: 25, live: 28, faint: 242, zombie: 160, ended: 127,
			moved: 130, warn: 94, border: 249, bar: 153, idle: 254})
	default:
		t.sixteen()
	}
	t.Key = painter(t.KeyStyle)
	return t
}

func style() lipgloss.Style { return lipgloss.NewStyle() }

func (t *Theme) mono() {
	bold, faint := painter(style().Bold(true)), painter(style().Faint(true))
	t.Session, t.Strong, t.Warn, t.Bad = bold, bold, bold, bold
	t.Exited, t.Dim = faint, faint // NO_COLOR does not forbid it
	t.KeyStyle = style().Bold(true)
	t.bar = bar{painter(style().Reverse(true)), true}
	t.idle = bar{painter(style().Bold(true).Underline(true)), true}
}

func (t *Theme) sixteen() {
	front := func(c ansi.BasicColor) Paint { return painter(style().Foreground(c)) }
	faint := painter(style().Faint(true))
	t.Session = painter(style().Bold(true).Foreground(ansi.BasicColor(6)))
	t.Live, t.Exited, t.Zombie, t.Ended, t.Moved = front(2), faint, front(1), front(5), front(3)
	t.Strong, t.Dim, t.Border, t.Warn, t.Bad = painter(style().Bold(true)), faint, faint, front(3), front(1)
	t.KeyStyle = style().Foreground(ansi.BasicColor(6))
	on := func(c ansi.BasicColor) bar {
		return bar{painter(style().Foreground(ansi.BasicColor(0)).Background(c)), true}
	}
	t.bar, t.idle = on(6), on(7)
}

// shades are colours from the 256.
type shades struct {
	accent, live, faint, zombie, ended, moved, warn, border uint8
	bar, idle                                               uint8 // backgrounds
}

func (t *Theme) palette(s shades) {
	shade := func(c uint8) color.Color { return ansi.IndexedColor(c) }
	front := func(c uint8) Paint { return painter(style().Foreground(shade(c))) }
	back := func(c uint8) Paint { return painter(style().Background(shade(c))) }
	t.Session = painter(style().Bold(true).Foreground(shade(s.accent)))
	t.Live, t.Exited, t.Zombie, t.Ended, t.Moved = front(s.live), front(s.faint), front(s.zombie), front(s.ended), front(s.moved)
	t.Strong, t.Dim, t.Border, t.Warn, t.Bad = painter(style().Bold(true)), front(s.faint), front(s.border), front(s.warn), front(s.zombie)
	t.KeyStyle = style().Foreground(shade(s.accent))
	t.bar, t.idle = bar{back(s.bar), false}, bar{back(s.idle), false}
}
