package panes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

const mostIndent = 8

func labelColumns(columns int) int { return min(columns*2/5, 48) }

func (m *Timeline) Lines(l *Labels, columns int) []string {
	lines := []string{m.axis(l, columns)}
	for i := m.top; i < len(m.lanes) && len(lines) <= m.rows; i++ {
		lines = append(lines, m.lane(l, i, columns))
	}
	return lines
}

func (m *Timeline) Note() string {
	from, to := m.Span()
	span := display.Age(to.Sub(from))
	if to.Sub(from) < time.Minute {
		span = to.Sub(from).Round(time.Millisecond).String()
	}
	n, lanes, calls := 0, 0, 0
	for i := range m.lanes {
		if l := &m.lanes[i]; len(l.calls) > 0 {
			calls += len(l.calls)
		} else {
			n, lanes = n+len(l.processes), lanes+1
		}
	}
	text := ""
	if calls > 0 {
		text = display.Count(calls, "call", "calls") + ", "
	}
	text += fmt.Sprintf("%s in %s, %s", display.Count(n, "process", "processes"),
		display.Count(lanes, "lane", "lanes"), span)
	if m.zoomed {
		text += fmt.Sprintf(" of %s", display.Age(m.now.Sub(m.first)))
	}
	return text
}

// steps are the possible distances between ticks of the axis.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

const tickColumns = 14

// axis is the line above the lanes: a tick and its time wherever there is room.
func (m *Timeline) axis(l *Labels, columns int) string {
	from, to := m.Span()
	lane := columns - labelColumns(columns)
	span := to.Sub(from)
	step := steps[len(steps)-1]
	for _, s := range steps {
		if float64(s)/float64(span)*float64(lane) >= tickColumns {
			step = s
			break
		}
	}
	layout := "15:04"
	switch {
	case step < time.Second:
		layout = "15:04:05.000"
	case step < time.Minute:
		layout = time.TimeOnly
	case step >= 24*time.Hour:
		layout = time.DateOnly
	}
	line := l.Line(columns)
	line.Skip(columns - lane)
	zone := l.Now.Location()
	used := 0
	for t := from.In(zone).Truncate(step); !t.After(to); t = t.Add(step) {
		x := place(t, from, to, lane)
		text := l.Side + t.Format(layout)
		if t.Before(from) || x < used || x+ink.Width(text) > lane {
			continue
		}
		line.Skip(x - used)
		line.Put(l.Dim, text)
		used = x + ink.Width(text)
	}
	return line.Full()
}

// place is the column of a time, which may be outside the lane.
func place(t, from, to time.Time, columns int) int {
	return int(float64(t.Sub(from)) / max(float64(to.Sub(from)), 1) * float64(columns))
}

// cell is one column of a lane.
type cell struct {
	text  string
	paint ink.Paint
	rank  int // a higher rank is drawn over a lower one
}

func (m *Timeline) lane(l *Labels, i, columns int) string {
	ln := &m.lanes[i]
	var line *ink.Line
	if i == m.sel {
		line = l.Selected(columns, true)
	} else {
		line = l.Line(columns)
	}
	named := labelColumns(columns)
	name, draw := m.name, m.cells
	if len(ln.calls) > 0 {
		name, draw = m.callName, m.callCells
	}
	name(l, line, ln, named)
	line.Skip(line.Left - (columns - named))
	for _, c := range draw(l, ln, columns-named) {
		if c.text == "" {
			line.Skip(1)
		} else {
			line.Put(c.paint, c.text)
		}
	}
	return line.Full()
}

// name writes the last process of a lane, and how many there are.
func (m *Timeline) name(l *Labels, line *ink.Line, ln *lane, columns int) {
	p := ln.processes[len(ln.processes)-1]
	look := l.Process(p)
	indent := strings.Repeat("  ", min(ln.depth, mostIndent))
	count := ""
	if len(ln.processes) > 1 {
		count = fmt.Sprintf(" %s%d", l.Times, len(ln.processes))
	}
	text := l.Command(p)
	switch {
	case len(ln.processes) == 1:
		text = fmt.Sprintf("%d %s", p.PID, text)
	case ln.short && slices.ContainsFunc(ln.processes, func(o *api.Process) bool { return o.Comm != p.Comm }):
		text = "under 1 % each"
	case ln.program, ln.short:
		text = display.Text(p.Comm)
	}
	line.Put(l.Dim, " "+indent)
	line.Put(look.Paint, look.Glyph+" ")
	room := columns - 4 - len(indent) - ink.Width(count)
	line.Put(ink.Paint{}, l.Fit(text, room))
	line.Put(l.Key, count)
}

func (m *Timeline) cells(l *Labels, ln *lane, columns int) []cell {
	cells := make([]cell, columns)
	from, to := m.Span()
	for _, p := range ln.processes {
		born, end := m.life(p, l.Born)
		if end.Before(from) || born.After(to) {
			continue
		}
		look, mark, rank := painted(l, p)
		start, stop := span(born, end, from, to, columns)
		for x := start; x <= stop; x++ {
			text, rank := l.Lane, rank
			switch {
			case x == stop && mark != "" && !end.After(to):
				text, rank = mark, rank+1
			case cells[x].text == l.Lane:
			case x == stop && p.State == api.StateLive && !to.Before(m.now):
				text = l.LaneNow
			case start == stop:
				text = l.LaneDot
			}
			if rank >= cells[x].rank {
				cells[x] = cell{text, look, rank}
			}
		}
	}
	return cells
}

// span is the first and the last column of what overlaps the shown time.
func span(begin, end, from, to time.Time, columns int) (start, stop int) {
	start, stop = place(begin, from, to, columns), place(end, from, to, columns)
	return min(max(start, 0), columns-1), min(stop, columns-1)
}

// painted is how the lifetime of a process is painted, the mark at its end, and its rank: an
// end or a failure covers a live process, which covers a normal exit. A mark has the rank
// above.
func painted(l *Labels, p *api.Process) (paint ink.Paint, mark string, rank int) {
	look := l.Process(p)
	switch {
	case p.State == api.StateLive:
		return look.Paint, "", 3
	case look.Letter == "E":
		return l.Ended, l.EndedGlyph, 7
	case p.Signal != "" || p.ExitCode != nil && *p.ExitCode != 0:
		return l.Bad, l.Times, 5
	case p.State == api.StateZombie:
		return look.Paint, "", 3
	}
	return l.Key, "", 1
}

// TimelineLegend says what the lanes are made of, the most important first, as far as there is room.
func TimelineLegend(l *Labels, columns int) (legend string) {
	for _, item := range []struct {
		ink.Paint
		text string
	}{
		{l.Bad, l.Times + " failed"}, {l.Ended, l.EndedGlyph + " ended by us"}, {l.Key, l.Lane + " exited"},
		{l.Live, l.LaneNow + " live"}, {l.Moved, l.MovedGlyph + l.LaneNow + " orphan"},
		{l.Strong, l.Horizontal + " call"},
	} {
		next := legend + " " + item.Of(item.text) + " "
		if ink.Width(next) > columns {
			break
		}
		legend = next
	}
	return legend
}
