package tui

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

const (
	indentColumns = 2
	leastCommand  = 8 // columns of it that the fate of a dead process leaves to it
)

// columnSet is the figures that fit beside the rows.
func (m *model) columnSet() panes.Columns {
	return panes.Fit(m.layout().inner(), m.view.SessionsFolded())
}

type rows struct {
	panes.Labels
	m       *model
	set     panes.Columns
	guides  func(r *picture.Row, most int) []bool
	columns int
	table   bool // only folded sessions are shown
}

func (m *model) tree(l layout) []string {
	window := m.view.Window()
	if len(window) == 0 {
		return m.empty(l.inner())
	}
	w := &rows{
		Labels: *m.labels(), m: m, set: m.columnSet(), guides: m.view.Guides(),
		columns: l.inner(), table: m.view.SessionsFolded(),
	}
	lines := make([]string, 0, len(window))
	above, below := m.view.More(window)
	for i, r := range window {
		edge := " "
		switch {
		case i == 0 && above:
			edge = w.Up
		case i == len(window)-1 && below:
			edge = w.Down
		}
		lines = append(lines, w.line(r, edge))
	}
	return lines
}

func (m *model) empty(width int) []string {
	text := "no sessions yet; start one: lineage run -- COMMAND"
	switch {
	case !m.link.known && m.link.away != nil:
		return m.noDaemon(width)
	case !m.link.known:
		text = ""
	case m.view.Picture.Filter() != nil:
		text = "nothing matches the filter; Esc clears it"
	case m.link.status.Live > 0: // members of all sessions
		text = "sessions of other users are hidden; run with sudo to see them"
	}
	return []string{m.term.theme.Text(m.term.theme.Dim, " "+text, width)}
}

// noDaemon says why nothing is shown yet, and how to start a daemon if none runs.
func (m *model) noDaemon(width int) (lines []string) {
	t := m.term.theme
	why, hint := display.Error(m.link.away), ""
	if e, ok := errors.AsType[*api.UnreachableError](m.link.away); ok && (errors.Is(e, fs.ErrNotExist) ||
		errors.Is(e, syscall.ECONNREFUSED)) {
		why, hint = "no daemon at "+display.Text(e.Socket)+
			"; start one:", "\n  sudo lineage daemon\n  sudo lineage run -- CMD"
	}
	for _, part := range strings.Split(why+hint, "\n") {
		for _, s := range ink.Wrap(part, width-2) {
			lines = append(lines, t.Text(t.Warn, " "+s, width))
		}
	}
	return lines
}

func (w *rows) line(r *picture.Row, edge string) string {
	l := w.Theme.Line(w.columns)
	if r == w.m.view.Selected() {
		l, edge = w.Theme.Selected(w.columns, w.m.focus == onTree), w.Cursor
	}
	l.Put(w.Dim, edge)
	w.indent(l, r)
	if r.Kind == picture.SessionRow {
		w.session(l, r)
	} else {
		w.process(l, r)
	}
	return l.Full()
}

// most is how many levels are indented. A deeper row shows its depth as a number.
func (w *rows) most() int { return max(w.columns/4/indentColumns, 2) }

func (w *rows) indent(l *ink.Line, r *picture.Row) {
	flags := w.guides(r, w.most())
	if depth := w.m.view.Depth(r); depth > len(flags) {
		l.Put(w.Dim, fmt.Sprintf("[%d]", depth))
	}
	for i, more := range flags {
		switch {
		case i < len(flags)-1 && more:
			l.Put(w.Border, w.Bar)
		case i < len(flags)-1:
			l.Put(w.Border, "  ")
		case more:
			l.Put(w.Border, w.Tee)
		default:
			l.Put(w.Border, w.Elbow)
		}
	}
	switch {
	case w.m.view.Child(r) == nil && r.Kind == picture.SessionRow:
		l.Put(ink.Paint{}, "  ")
	case w.m.view.Child(r) == nil:
	case r.Folded():
		l.Put(w.Key, w.Shut)
	default:
		l.Put(w.Dim, w.Open)
	}
}

// process writes a process: its command, then notes, and last the figures. The command is cut
// to what a note leaves to it; then the note is left out, as a part of it would mislead.
func (w *rows) process(l *ink.Line, r *picture.Row) {
	p, look := r.Process, w.Look(r)
	l.Put(look.Paint, look.String()+" ")
	text := look.Paint
	if p.State != api.StateExited {
		text = ink.Paint{}
	}
	l.Put(w.Dim, fmt.Sprintf("%d ", p.PID))
	about, call := note{Paint: look.Paint, leaves: most}, note{Paint: w.Key, leaves: half}
	about.long, about.text = w.Note(p)
	call.long, call.text = w.Call(p)
	notes := []note{about, call}
	if r.Folded() {
		notes = slices.Insert(notes, 0,
			note{Paint: w.Dim, text: strings.TrimSpace(w.hidden(r)), leaves: half})
	}
	command := w.Command(p)
	left, figures := w.figures(l, r)
	room := max(l.Left-left, 0)
	shown, used := fitting(notes, ink.Width(command), room)
	l.Put(text, w.Fit(command, max(room-used, 0)))
	for _, n := range shown {
		l.Skip(2)
		l.Put(n.Paint, n.text)
	}
	figures()
}

// note stands behind a command, longer if there is room.
type note struct {
	ink.Paint
	text, long string
	leaves     float64 // of the room, to the command
}

const half, most = 0.5, 0.9 // of the room

// fitting are the notes for which there is room beside a command of that width, and what they
// take of it.
func fitting(notes []note, whole, room int) (shown []note, used int) {
	for _, n := range notes {
		least := min(int(n.leaves*float64(room)), whole)
		if w := 2 + ink.Width(n.text); n.text != "" && least+used+w <= room {
			shown = append(shown, n)
			used += w
		}
	}
	for i, n := range shown {
		if more := ink.Width(n.long) - ink.Width(n.text); more > 0 && whole+used+more <= room {
			shown[i].text = n.long
			used += more
		}
	}
	return shown, used
}

// figures is what stands at the end of a row: how wide it is, and how it is written when
// the text before it has been. The text may use the room where the row has none.
func (w *rows) figures(l *ink.Line, r *picture.Row) (width int, write func()) {
	switch {
	case !panes.Over(r):
		spare := w.set.Spare(r)
		width = w.set.Width() - spare
		return width, func() {
			l.Skip(l.Left - width)
			w.set.Put(l, &w.Labels, r, spare)
		}
	case r.Kind == picture.SessionRow:
		return 0, func() {}
	}
	fate := w.set.Fate(&w.Labels, r, l.Left-leastCommand)
	return fate.Width(), func() { fate.Put(l, w.Look(r).Paint) }
}

// hidden says how many processes are folded away below r.
func (w *rows) hidden(r *picture.Row) string {
	s := fmt.Sprintf(" +%d", w.m.view.Below(r))
	if w.m.view.Picture.Filter() != nil {
		s += fmt.Sprintf(", %d match", r.Hits())
	}
	return s
}
