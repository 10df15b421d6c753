package tui

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Themes are what --theme takes.
var Themes = []string{"auto", "contrast", "mono"}

// paint draws text in one style.
type paint struct{ on, off string }

func (p paint) of(s string) string {
	if p.on == "" || s == "" {
		return s
	}
	return p.on + s + p.off
}

func painter(s lipgloss.Style) paint {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return paint{on, off}
}

// theme is how everything looks. Colours are the terminal's own sixteen, on its
// own background; what a colour says, a glyph and a letter say too.
type theme struct {
	glyphs
	session, live, exited, zombie, ended, moved paint
	selected, strong, dim, warn, bad, key       paint
	keyStyle                                    lipgloss.Style // of key, for the footer
}

func newTheme(name string, ascii bool) theme {
	t := theme{glyphs: unicodeGlyphs}
	if ascii {
		t.glyphs = asciiGlyphs
	}
	s := lipgloss.NewStyle
	bold := painter(s().Bold(true))
	switch name {
	case "mono":
		t.session, t.selected, t.strong, t.warn, t.bad = bold, bold, bold, bold, bold
		t.keyStyle = s().Bold(true)
	case "contrast":
		bright := func(c int) paint { return painter(s().Bold(true).Foreground(ansi.BasicColor(c))) }
		t.session, t.live, t.zombie, t.ended, t.moved = bright(14), bright(10), bright(9), bright(13), bright(11)
		t.selected, t.strong, t.warn, t.bad = bold, bold, bright(11), bright(9)
		t.keyStyle = s().Bold(true).Foreground(ansi.BasicColor(14))
	default:
		color := func(c int) paint { return painter(s().Foreground(ansi.BasicColor(c))) }
		faint := painter(s().Faint(true))
		t.session = painter(s().Bold(true).Foreground(ansi.BasicColor(6)))
		t.live, t.exited, t.zombie, t.ended, t.moved = color(2), faint, color(1), color(5), color(3)
		t.selected, t.strong, t.dim, t.warn, t.bad = bold, bold, faint, color(3), color(1)
		t.keyStyle = s().Foreground(ansi.BasicColor(6))
	}
	t.key = painter(t.keyStyle)
	return t
}

// glyphs are the shapes; a letter stands beside each of them.
type glyphs struct {
	live, exited, zombie, ended, moved string
	cursor, mark, open, shut           string
	tee, elbow, bar, gap               string
	times, dots, up, down, sep, rule   string
	lane, laneNow                      string
	horizontal, corners                string
	spark                              []string
	keys                               *strings.Replacer // names of keys
}

var (
	unicodeGlyphs = glyphs{
		live: "●", exited: "○", zombie: "Z", ended: "⚑", moved: "↷",
		cursor: "›", mark: "✓", open: "▾", shut: "▸",
		tee: "├─", elbow: "└─", bar: "│ ", gap: "  ",
		times: "×", dots: "…", up: "↑", down: "↓", sep: "·", rule: "│",
		lane: "━", laneNow: "●", horizontal: "─", corners: "╭╮╰╯",
		spark: strings.Split("▁▂▃▄▅▆▇█", ""), keys: strings.NewReplacer(),
	}
	asciiGlyphs = glyphs{
		live: "*", exited: "o", zombie: "Z", ended: "!", moved: ">",
		cursor: ">", mark: "+", open: "-", shut: "+",
		tee: "|-", elbow: "`-", bar: "| ", gap: "  ",
		times: "x", dots: "~", up: "^", down: "v", sep: "-", rule: "|",
		lane: "=", laneNow: "*", horizontal: "-", corners: "++++",
		spark: strings.Split("_.:-=+*#", ""), keys: strings.NewReplacer("←→", "Left, Right", "↑", "Up", "↓", "Down", "←", "Left", "→", "Right"),
	}
)

// CheckTheme tells whether there is a theme of that name.
func CheckTheme(name string) error {
	for _, t := range Themes {
		if t == name {
			return nil
		}
	}
	return fmt.Errorf("theme %q: want one of %s", name, strings.Join(Themes, ", "))
}
