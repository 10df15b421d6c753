package ink

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Line is one line of the screen while it is written. Text that does not fit is cut and
// ends in dots.
type Line struct {
	Left int // columns

	b    strings.Builder
	dots string
	bar  bar
}

func (t *Theme) Line(columns int) *Line { return &Line{Left: columns, dots: t.Dots} }

// Selected begins the line of the selected row. Focused: keys go to its pane.
func (t *Theme) Selected(columns int, focused bool) *Line {
	l := t.Line(columns)
	l.bar = t.idle
	if focused {
		l.bar = t.bar
	}
	return l
}

func (t *Theme) Text(p Paint, s string, columns int) string {
	l := t.Line(columns)
	l.Put(p, s)
	return l.Full()
}

func (l *Line) Put(p Paint, s string) {
	if l.Left <= 0 || s == "" {
		return
	}
	w := Width(s)
	if w > l.Left {
		s, w = ansi.Truncate(s, l.Left, l.dots), l.Left
	}
	l.write(p, s)
	l.Left -= w
}

func (l *Line) write(p Paint, s string) {
	switch {
	case l.bar.on == "":
	case l.bar.plain:
		p = Paint{} // String puts everything into one style
	default:
		p = Paint{l.bar.on + p.on, l.bar.off}
	}
	l.b.WriteString(p.Of(s))
}

// PutRight writes text at the right edge of the next columns.
func (l *Line) PutRight(p Paint, s string, columns int) {
	columns = min(columns, l.Left)
	s = cut(s, columns, l.dots)
	l.Skip(columns - Width(s))
	l.Put(p, s)
}

func (l *Line) Skip(columns int) { l.Put(Paint{}, strings.Repeat(" ", max(columns, 0))) }

// Join appends another line, which must not be written to afterwards.
func (l *Line) Join(other *Line) {
	s := other.String()
	l.b.WriteString(s)
	l.Left -= ansi.StringWidth(s)
}

// Full is the line with blanks to its end.
func (l *Line) Full() string {
	if l.Left > 0 {
		l.write(Paint{}, strings.Repeat(" ", l.Left))
		l.Left = 0
	}
	return l.String()
}

func (l *Line) String() string {
	if l.bar.plain {
		return l.bar.Of(l.b.String())
	}
	return l.b.String()
}

// Width is how many columns text takes, with or without styles.
func Width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] < ' ' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

func (t *Theme) Fit(s string, columns int) string { return cut(s, columns, t.Dots) }

func cut(s string, columns int, dots string) string {
	if Width(s) <= columns {
		return s
	}
	return ansi.Truncate(s, max(columns, 0), dots)
}

// Wrap breaks text into lines of at most that many columns.
func Wrap(s string, columns int) []string {
	return strings.Split(ansi.Wrap(s, max(columns, 1), "/"), "\n")
}

// Frame is the border of a pane: a title and a text at the right end of the upper border, a
// legend and a text in the lower border.
type Frame struct {
	Title, Head, Legend, Foot string // sanitised; all but the title may have styles
	Focused                   bool   // keys go to this pane
}

// Box draws lines, each two columns narrower than the box, in a frame of that size.
func (t *Theme) Box(f Frame, lines []string, columns, rows int) []string {
	corners := strings.Split(t.Corners, "")
	border, title := t.Border, t.Strong
	if f.Focused {
		border, title = t.Key, t.Session
	}
	side := border.Of(t.Side)
	box := make([]string, 0, rows)
	head := ""
	if room := columns - 2; f.Title != "" && room > 8 {
		head = title.Of(" " + t.Fit(f.Title, max(room-4-Width(f.Head), 4)) + " ")
	}
	box = append(box, t.edge(border, corners[0], corners[1], head, f.Head, columns))
	for i := range rows - 2 {
		text := strings.Repeat(" ", max(columns-2, 0))
		if i < len(lines) {
			text = lines[i]
		}
		box = append(box, side+text+side)
	}
	return append(box, t.edge(border, corners[2], corners[3], f.Legend, f.Foot, columns))
}

// edge is the upper or the lower border.
func (t *Theme) edge(border Paint, left, right, start, note string, columns int) string {
	room := columns - 2
	if w := Width(note); w > room {
		note = ""
	} else {
		room -= w
	}
	if w := 1 + Width(start); start != "" && w <= room {
		start = border.Of(t.Horizontal) + start
		room -= w
	} else {
		start = ""
	}
	return border.Of(left) + start + border.Of(strings.Repeat(t.Horizontal,
		max(room, 0))) + note + border.Of(right)
}
