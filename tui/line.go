package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// line is one line of the screen that is being written. What does not fit is
// cut; a cut text ends in dots.
type line struct {
	b    strings.Builder
	left int // columns
	dots string
}

func (m *model) line(columns int) *line { return &line{left: columns, dots: m.theme.dots} }

// put writes sanitised text.
func (l *line) put(p paint, s string) {
	if l.left <= 0 || s == "" {
		return
	}
	w := width(s)
	if w > l.left {
		s = ansi.Truncate(s, l.left, l.dots)
		l.b.WriteString(p.of(s))
		l.left = 0
		return
	}
	l.b.WriteString(p.of(s))
	l.left -= w
}

// full gives the line with blanks to its end.
func (l *line) full() string {
	if l.left > 0 {
		l.b.WriteString(strings.Repeat(" ", l.left))
		l.left = 0
	}
	return l.b.String()
}

func (l *line) String() string { return l.b.String() }

// width is how many columns s takes.
func width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] < ' ' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// fit cuts sanitised text to so many columns.
func (m *model) fit(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	return ansi.Truncate(s, max(columns, 0), m.theme.dots)
}

// wrap breaks sanitised text into lines of so many columns.
func wrap(s string, columns int) []string {
	return strings.Split(ansi.Wrap(s, max(columns, 1), "/"), "\n")
}
