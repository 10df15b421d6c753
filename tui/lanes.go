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

// labelShare is what part of a line names the process of a lane.
const labelShare = 0.45

// span is the time that the timeline shows.
func (m *model) span() (from, to time.Time) {
	to = m.present()
	from = to.Add(-time.Second)
	root := m.view.Root()
	if root == nil || root.Session == nil {
		return from, to
	}
	if s := root.Session; s.Ended != nil {
		to = *s.Ended
	}
	if s := root.Session; s.Started != nil && s.Started.Before(to) {
		from = *s.Started
	} else if c := root.First(); c != nil && c.Kind == picture.ProcessRow {
		from = m.born(c.Process)
	}
	return from, to
}

// born is when a process started.
func (m *model) born(p *api.Process) time.Time {
	if p.Started != nil {
		return *p.Started
	}
	return m.boot.Add(time.Duration(p.StartNS))
}

func laneColumns(columns int) int { return columns - int(float64(columns)*labelShare) }

// axis is the line above the lanes.
func (m *model) axis(columns int) string {
	from, to := m.span()
	l := m.line(columns)
	lane := laneColumns(columns)
	l.put(m.theme.dim, strings.Repeat(" ", columns-lane))
	start, end := from.Format(time.TimeOnly), to.Format(time.TimeOnly)
	took := fmt.Sprintf(" %s ", display.Age(to.Sub(from)))
	if lane < len(start)+len(end)+len(took) {
		l.put(m.theme.dim, strings.TrimSpace(took))
		return l.full()
	}
	rest := lane - len(start) - len(end) - len(took)
	l.put(m.theme.dim, start+strings.Repeat(m.theme.horizontal, rest/2)+took+strings.Repeat(m.theme.horizontal, rest-rest/2)+end)
	return l.full()
}

// lane draws when a process lived.
func (m *model) lane(l *line, r *picture.Row, look look) {
	p := r.Process
	columns := m.width
	if m.beside() {
		columns = m.width - m.detailColumns() - 1
	}
	lane := min(laneColumns(columns), l.left-2)
	if lane < 2 {
		return
	}
	label := m.line(l.left - lane - 1)
	label.put(look.paint, fmt.Sprintf("%s%s %d ", look.glyph, look.letter, p.PID))
	text := paint{}
	if r == m.view.Selected() {
		text = m.theme.selected
	}
	label.put(text, display.Text(cmp.Or(p.Comm, "?")))
	l.b.WriteString(label.full() + " ")
	l.left = lane
	from, to := m.span()
	column := func(t time.Time) int {
		part := float64(t.Sub(from)) / max(float64(to.Sub(from)), 1)
		return min(max(int(part*float64(lane-1)+0.5), 0), lane-1)
	}
	start, end := column(m.born(p)), lane-1
	tip := m.theme.laneNow
	if p.State != api.StateLive {
		tip = look.glyph
		if p.State == api.StateZombie {
			tip = look.letter
		}
		if p.Exited != nil {
			end = column(*p.Exited)
		}
	}
	start = min(start, end)
	l.put(paint{}, strings.Repeat(" ", start))
	l.put(look.paint, strings.Repeat(m.theme.lane, end-start)+tip)
}
