package ink

import "strings"

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
	return border.Of(left) + start + border.Of(strings.Repeat(t.Horizontal, max(room, 0))) + note + border.Of(right)
}
