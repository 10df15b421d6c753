package ink

import "strings"

// Frame is the border of a pane: a title, a text at the right end of the upper border,
// and one in the lower border.
type Frame struct {
	Title, Head, Foot string // sanitised; Head and Foot may have styles
	Focused           bool   // keys go to this pane
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
	box = append(box, t.edge(border, title, corners[0], corners[1], f.Title, f.Head, columns))
	for i := range rows - 2 {
		text := strings.Repeat(" ", max(columns-2, 0))
		if i < len(lines) {
			text = lines[i]
		}
		box = append(box, side+text+side)
	}
	return append(box, t.edge(border, t.Dim, corners[2], corners[3], "", f.Foot, columns))
}

// edge is the upper or the lower border.
func (t *Theme) edge(border, title Paint, left, right, name, note string, columns int) string {
	room := columns - 2
	text := ""
	if name != "" && room > 8 {
		name = " " + t.Fit(name, max(room-4-Width(note), 4)) + " "
		text = border.Of(t.Horizontal) + title.Of(name)
		room -= 1 + Width(name)
	}
	if w := Width(note); w > room {
		note = ""
	} else {
		room -= w
	}
	return border.Of(left) + text + border.Of(strings.Repeat(t.Horizontal, max(room, 0))) + note + border.Of(right)
}
