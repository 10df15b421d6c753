package tui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// What the parts of a session's row take of it.
const (
	nameColumns    = 12 // its name in a table, so that ids form a column
	leastName      = 6  // … that notes leave to it
	commandColumns = 16 // its command in a table, before the id
)

// session writes a session: its name, its id, what it warns of, and in a table its
// command. If there is little room, the id goes first and warnings last.
func (w *rows) session(l *ink.Line, r *picture.Row) {
	s, look := r.Session, w.Look(r)
	if look.Glyph != "" {
		l.Put(look.Paint, look.String()+" ")
	}
	left, figures := w.figures(l, r)
	room := max(l.Left-left, 0)
	command, program := "", 0
	if w.table && s.Root != nil {
		command = w.Began(s.Root)
		word, _, more := strings.Cut(command, " ")
		if more {
			word += w.Dots
		}
		program = 2 + min(ink.Width(word), nameColumns)
	}
	note, rest := w.note(s, room-program)
	name, id := w.names(r, rest, max(min(ink.Width(command), commandColumns)+2-program, 0))

	put := func(p ink.Paint, s string) { l.Put(p, w.Fit(s, l.Left-left)) }
	put(look.Paint, name)
	if id != "" {
		put(w.Dim, " "+id)
	}
	if note != "" {
		p := w.Warn
		if s.State == api.StateEnded {
			p = w.Dim
		} else if look.Glyph != "" {
			p = look.Paint
		}
		put(p, "  "+note)
	}
	if command != "" {
		put(w.Dim, "  "+command)
	} else if r.Folded() && !w.table {
		put(w.Dim, w.hidden(r))
	}
	figures()
}

// note is what a session warns of, and the room that it leaves to the name: less urgent
// notes are left out before the name is cut.
func (w *rows) note(s *api.Session, room int) (note string, name int) {
	notes := w.SessionNotes(s)
	if s.State == api.StateActive {
		notes = slices.Concat(panes.Remains(s, w.set.Has), notes)
	}
	for len(notes) > 0 {
		note = w.Joined(notes)
		if name = room - 2 - ink.Width(note); name >= leastName || len(notes) == 1 {
			return note, max(name, min(leastName, room))
		}
		notes = notes[:len(notes)-1]
	}
	return "", room
}

// names are the name and the id as they fit into a room, of which the id leaves some.
func (w *rows) names(r *picture.Row, room, spare int) (name, id string) {
	name, id = display.Text(r.Session.Name), display.Text(r.Session.ID)
	column := 0
	if w.table {
		column = nameColumns
	}
	width := max(ink.Width(name), column)
	pad := strings.Repeat(" ", width-ink.Width(name))
	if width > 0 && width+1+ink.Width(id)+spare <= room {
		return name + pad, id
	}
	name = cmp.Or(name, id, "no session")
	if pad = strings.Repeat(" ", max(column-ink.Width(name), 0)); ink.Width(name)+len(pad) > room {
		pad = ""
	}
	return w.Fit(name, room) + pad, ""
}
