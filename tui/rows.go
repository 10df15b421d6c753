package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// The columns of a row that are not its command.
const (
	indentColumns  = 2
	commandColumns = 12 // at least so many are left to it
)

// tree draws the window of rows.
func (m *model) tree(columns int) []string {
	window := m.view.Window()
	if len(window) == 0 {
		return m.empty(columns)
	}
	var lines []string
	if m.lanes {
		lines = append(lines, m.axis(columns))
	}
	guides := m.view.Guides()
	above, below := m.view.More(window)
	for i, r := range window {
		l := m.line(columns)
		edge := " "
		switch {
		case i == 0 && above:
			edge = m.theme.up
		case i == len(window)-1 && below:
			edge = m.theme.down
		}
		m.lead(l, r, edge)
		if m.view.Mode() == picture.Tree {
			m.indent(l, r, guides, columns)
		}
		m.row(l, r)
		lines = append(lines, l.full())
	}
	return lines
}

func (m *model) empty(columns int) []string {
	text := "no sessions yet; start one: lineage run -- COMMAND"
	switch {
	case !m.known:
		text = ""
	case m.view.Picture.Filter() != nil:
		text = "nothing matches the filter; Esc clears it"
	case m.view.Mode() == picture.Orphans:
		text = "no orphans and no zombies; o goes back"
	}
	l := m.line(columns)
	l.put(m.theme.dim, "  "+text)
	return []string{l.full()}
}

// lead writes whether the row is selected and marked, and whether there is more
// beyond the edge of the window.
func (m *model) lead(l *line, r *picture.Row, edge string) {
	switch {
	case r == m.view.Selected():
		l.put(m.theme.key, m.theme.cursor)
	default:
		l.put(m.theme.dim, edge)
	}
	if r.Marked {
		l.put(m.theme.warn, m.theme.mark)
	} else {
		l.put(paint{}, " ")
	}
}

// indent writes the lines that lead to the row. They take no more than a third
// of the width: below that a row says how deep it is.
func (m *model) indent(l *line, r *picture.Row, guides *picture.Guides, columns int) {
	most := max(columns/3/indentColumns, 2)
	flags := guides.Of(r, most)
	if depth := m.view.Depth(r); depth > most {
		l.put(m.theme.dim, fmt.Sprintf("[%d]", depth))
	}
	for i, more := range flags {
		switch {
		case i < len(flags)-1 && more:
			l.put(m.theme.dim, m.theme.bar)
		case i < len(flags)-1:
			l.put(m.theme.dim, m.theme.gap)
		case more:
			l.put(m.theme.dim, m.theme.tee)
		default:
			l.put(m.theme.dim, m.theme.elbow)
		}
	}
	switch {
	case r.First() == nil:
	case r.Folded():
		l.put(m.theme.dim, m.theme.shut)
	default:
		l.put(m.theme.dim, m.theme.open)
	}
}

// row writes what the row shows.
func (m *model) row(l *line, r *picture.Row) {
	switch r.Kind {
	case picture.SessionRow:
		m.sessionRow(l, r)
	case picture.GroupRow:
		look := m.look(r.First())
		command := look.glyph + look.letter + " " + m.command(r.First().Process)
		times := fmt.Sprintf(" %s%d", m.theme.times, r.Count())
		m.spread(l, r, look.paint, command, times, howEnded(r.First().Process), look.paint)
	default:
		m.processRow(l, r)
	}
}

// look is how a process' state is shown.
type look struct {
	paint
	glyph, letter string
}

func (m *model) look(r *picture.Row) look {
	p, t := r.Process, m.theme
	switch {
	case p.State == api.StateExited && m.endedByUs(p):
		return look{t.ended, t.glyphs.ended, "E"}
	case p.State == api.StateExited:
		return look{t.exited, t.glyphs.exited, "X"}
	case p.State == api.StateZombie:
		return look{t.zombie, " ", t.glyphs.zombie}
	case moved(p):
		return look{t.moved, t.glyphs.moved, cmp.Or(display.Text(p.Task), "L")}
	}
	return look{t.live, t.glyphs.live, cmp.Or(display.Text(p.Task), "L")}
}

// moved tells that the kernel's parent is not the creator.
func moved(p *api.Process) bool {
	return p.Orphan || p.Creator != nil && p.Parent != nil && p.Parent.PID != p.Creator.PID
}

// endedByUs tells that a process died of the signal that its session's end
// sends.
func (m *model) endedByUs(p *api.Process) bool {
	s := m.view.Picture.Session(p.Session)
	if s == nil || p.Signal != "SIGTERM" && p.Signal != "SIGKILL" {
		return false
	}
	switch s.Session.State {
	case api.StateEnding, api.StateCondemned, api.StateEnded:
		return true
	}
	return false
}

func (m *model) processRow(l *line, r *picture.Row) {
	p := r.Process
	look := m.look(r)
	if m.lanes {
		m.lane(l, r, look)
		return
	}
	l.put(look.paint, look.glyph+look.letter+" ")
	text := look.paint
	if p.State != api.StateExited {
		text = paint{}
	}
	m.spread(l, r, text, fmt.Sprintf("%d %s", p.PID, m.command(p)), "", m.note(r), look.paint)
}

// spread writes a command, how many times it is there, and a note; the command
// gives way.
func (m *model) spread(l *line, r *picture.Row, text paint, command, times, note string, noted paint) {
	if r.Folded() {
		note = strings.TrimSpace(note + m.hidden(r))
	}
	room := l.left
	if note != "" {
		room = max(l.left-width(note)-2, min(commandColumns, l.left))
	}
	if r == m.view.Selected() && (text.on == "" || r.Process != nil && r.Process.State != api.StateExited) {
		text = m.theme.selected
	}
	l.put(text, m.fit(command, max(room-width(times), 0))+times)
	if note != "" {
		l.put(paint{}, "  ")
		l.put(noted, note)
	}
}

// hidden says how much is folded away below r.
func (m *model) hidden(r *picture.Row) string {
	if r.Kind == picture.GroupRow {
		return ""
	}
	n := r.Size()
	if r.Kind == picture.ProcessRow {
		n--
	}
	s := fmt.Sprintf("  +%d", n)
	if m.view.Picture.Filter() != nil {
		s += fmt.Sprintf(", %d match", r.Hits())
	}
	return s
}

// note says what the row's place and letter do not.
func (m *model) note(r *picture.Row) string {
	p := r.Process
	if s := m.figures(p); s != "" {
		return s
	}
	switch {
	case p.State == api.StateExited:
		s := howEnded(p)
		if p.Exited != nil {
			s += " " + display.Age(m.present().Sub(*p.Exited)) + " ago"
		}
		return s
	case p.State == api.StateZombie:
		s := howEnded(p)
		if p.Parent != nil {
			s += ", to be reaped by " + m.named(*p.Parent)
		}
		return s
	case p.Orphan && p.Creator != nil:
		return "orphan of " + m.named(*p.Creator)
	case p.Orphan:
		return "orphan"
	case moved(p):
		return "created by " + m.named(*p.Creator)
	}
	if e := p.Evidence; e != nil && e.Kind != "fork" && e.Kind != "root" {
		return display.Text(e.Kind)
	}
	return ""
}

// figures are what the flat list is sorted by.
func (m *model) figures(p *api.Process) string {
	if m.view.Mode() != picture.Flat || p.State != api.StateLive {
		return ""
	}
	switch order, _ := m.view.Sort(); order {
	case picture.ByCPU:
		return display.CPU(p.CPUSeconds)
	case picture.ByRSS:
		return display.Size(p.RSSBytes)
	}
	return ""
}

// named names a process with what is known of it.
func (m *model) named(ref api.Ref) string {
	if r := m.view.Picture.Process(ref); r != nil {
		return fmt.Sprintf("%d %s", ref.PID, display.Text(r.Process.Comm))
	}
	return fmt.Sprint(ref.PID)
}

func howEnded(p *api.Process) string {
	switch {
	case p.Signal != "":
		return display.Text(p.Signal)
	case p.ExitCode != nil:
		return fmt.Sprintf("exit %d", *p.ExitCode)
	}
	return "exited"
}

// command shows what a process runs, no longer than a screen is wide.
func (m *model) command(p *api.Process) string {
	return display.Command(p.Argv, p.Comm, p.ArgvTruncated, max(m.width, 1))
}

func (m *model) sessionRow(l *line, r *picture.Row) {
	s := r.Session
	p, letter := m.theme.session, ""
	switch s.State {
	case api.StateEnding, api.StateCondemned:
		letter, p = m.theme.glyphs.ended+"E ", m.theme.ended
	case api.StateEnded:
		letter, p = m.theme.glyphs.exited+"X ", m.theme.exited
	}
	l.put(p, letter)
	facts := []string{cmp.Or(display.Text(s.State), "not known")}
	if s.Deadline != nil && s.State != api.StateEnded {
		facts = append(facts, m.until(*s.Deadline))
	}
	if s.State != api.StateEnded {
		facts = append(facts, fmt.Sprintf("%d live", s.Live))
	} else if s.EndReason != "" {
		facts = append(facts, display.Text(s.EndReason))
	}
	if s.Orphans > 0 {
		facts = append(facts, count(s.Orphans, "orphan", "orphans"))
	}
	if s.Zombies > 0 {
		facts = append(facts, count(s.Zombies, "zombie", "zombies"))
	}
	if len(s.Degraded) > 0 {
		facts = append(facts, "degraded")
	}
	m.spread(l, r, p, sessionName(s), "", strings.Join(facts, " "+m.theme.sep+" "), m.theme.dim)
}

func (m *model) until(t time.Time) string {
	if left := t.Sub(m.present()); left > 0 {
		return "SIGKILL in " + display.Age(left.Round(time.Second))
	}
	return "SIGKILL is due"
}

// sessionName is the id and, if it has one, the name.
func sessionName(s *api.Session) string {
	return display.Text(strings.TrimSpace(cmp.Or(s.ID, "no session") + " " + s.Name))
}

// processName is the PID and the short name.
func processName(p *api.Process) string {
	if p == nil {
		return "it"
	}
	return fmt.Sprintf("%d %s", p.PID, display.Text(cmp.Or(p.Comm, "?")))
}

// rowName names a row.
func (m *model) rowName(r *picture.Row) string {
	switch r.Kind {
	case picture.SessionRow:
		return sessionName(r.Session)
	case picture.GroupRow:
		return fmt.Sprintf("%s %s%d", display.Text(r.First().Process.Comm), m.theme.times, r.Count())
	}
	return processName(r.Process)
}
