package panes

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// most limits the processes that are kept; above it, exited ones that started first are dropped.
const most = 20_000

const leastSpan = 10 * time.Millisecond

type Timeline struct {
	Session string
	Err     error     // why earlier processes are missing
	Asked   time.Time // when they were requested

	known map[api.Ref]*api.Process // of the history and the picture
	lanes []lane
	sel   int
	top   int
	rows  int // of the window

	first, now time.Time // of the session
	over       bool
	from, to   time.Time // the shown part, unless everything is shown
	zoomed     bool
	follows    bool // the right edge is now
}

// lane is one line: processes that ran the same command, of one creator or of several
// creators in one lane; or tool calls.
type lane struct {
	depth     int
	processes []*api.Process // in start order
	program   bool           // only their program is the same, not the arguments
	short     bool           // each lived for less than a hundredth of what is shown, and the lanes did not fit
	calls     []*api.Call    // in the order of their beginnings: this is their lane
}

// laneKey identifies a lane by its first process, or by its first call.
type laneKey struct {
	process api.Ref
	call    callKey
}

func (l *lane) key() (k laneKey) {
	if k.process = l.processes[0].Ref; len(l.calls) > 0 {
		k.call = keyOf(l.calls[0])
	}
	return k
}

func NewTimeline(session string) *Timeline {
	return &Timeline{Session: session, known: map[api.Ref]*api.Process{}, rows: most}
}

func (m *Timeline) Remember(t *api.Tree) {
	for i := range t.Nodes {
		m.known[t.Nodes[i].Ref] = &t.Nodes[i].Process
	}
}

// Update adds what the picture has of the session. born is when a process started.
func (m *Timeline) Update(p *picture.Picture, now time.Time, born func(*api.Process) time.Time) {
	p.All(func(r *picture.Row) {
		if r.Process.Session == m.Session {
			m.known[r.Process.Ref] = r.Process
		}
	})
	m.now, m.over = now, false
	m.first = now
	if s := p.Session(m.Session); s != nil {
		if s.Session.Started != nil {
			m.first = *s.Session.Started
		}
		if s.Session.Ended != nil {
			m.now, m.over = *s.Session.Ended, true
		}
	}
	for _, pr := range m.known {
		if b := born(pr); b.Before(m.first) {
			m.first = b
		}
	}
	all := m.bounded(slices.SortedFunc(maps.Values(m.known),
		func(a, b *api.Process) int { return a.Ref.Compare(b.Ref) }))
	if m.arrange(all, 0, born); len(m.lanes) > m.rows {
		from, to := m.Span()
		m.arrange(all, to.Sub(from)/100, born)
	}
}

// bounded drops the oldest exited processes if there are too many.
func (m *Timeline) bounded(all []*api.Process) []*api.Process {
	over := len(all) - most
	return slices.DeleteFunc(all, func(p *api.Process) bool {
		if over <= 0 || p.State != api.StateExited {
			return false
		}
		over--
		delete(m.known, p.Ref)
		return true
	})
}

// arrange makes the lanes: below each the commands that its processes started. Those that lived
// for less than least are one lane.
func (m *Timeline) arrange(all []*api.Process, least time.Duration, born func(*api.Process) time.Time) {
	var at laneKey
	if m.sel < len(m.lanes) {
		at = m.lanes[m.sel].key()
	}
	children := map[api.Ref][]*api.Process{}
	var roots []*api.Process
	for _, p := range all {
		// A creator is older: two that name each other would have no root.
		if c := p.Creator; c != nil && c.Compare(p.Ref) < 0 && m.known[*c] != nil {
			children[*c] = append(children[*c], p)
		} else {
			roots = append(roots, p)
		}
	}
	m.lanes = callLanes(all)
	var add func(processes []*api.Process, depth int, again bool)
	add = func(processes []*api.Process, depth int, again bool) {
		times := map[string]int{}
		for _, p := range processes {
			times[command(p)]++
		}
		var order []string
		alike := map[string]*lane{}
		for _, p := range processes {
			// Runs of a program with another temporary file each time are one lane.
			key := command(p)
			program := again && times[key] == 1
			if program {
				key = p.Comm
			}
			short := p.Exited != nil && p.Exited.Sub(born(p)) < least
			if short {
				key = ""
			}
			if alike[key] == nil {
				order = append(order, key)
				alike[key] = &lane{depth: depth, program: program, short: short}
			}
			alike[key].processes = append(alike[key].processes, p)
		}
		for _, key := range order {
			l := alike[key]
			m.lanes = append(m.lanes, *l)
			var below []*api.Process
			for _, p := range l.processes {
				below = append(below, children[p.Ref]...)
			}
			if len(below) > 0 {
				add(below, depth+1, len(l.processes) > 1)
			}
		}
	}
	add(roots, 0, false)
	if i := slices.IndexFunc(m.lanes, func(l lane) bool { return l.key() == at }); i >= 0 {
		m.sel = i
	}
	m.Move(0)
}

// command is a key for the command of a process. It is never equal to a comm, which has no NUL.
func command(p *api.Process) string { return p.Comm + "\x00" + strings.Join(p.Argv, "\x00") }

// Selected is the last process of the selected lane; of calls the first one that the last
// call started.
func (m *Timeline) Selected() (api.Ref, bool) {
	if m.sel >= len(m.lanes) {
		return api.Ref{}, false
	}
	return m.lanes[m.sel].last().Ref, true
}

func (l *lane) last() *api.Process { return l.processes[len(l.processes)-1] }

// SetHeight sets how many lanes are drawn.
func (m *Timeline) SetHeight(rows int) {
	m.rows = max(rows, 1)
	m.Move(0)
}

func (m *Timeline) Page() int { return max(m.rows-1, 1) }

// Move selects another lane, by lanes down.
func (m *Timeline) Move(by int) {
	m.sel = max(min(m.sel+by, len(m.lanes)-1), 0)
	m.top = max(min(m.top, m.sel, len(m.lanes)-m.rows), m.sel-m.rows+1, 0)
}

func (m *Timeline) Span() (from, to time.Time) {
	switch {
	case !m.zoomed:
		from, to = m.first, m.now
	case m.follows && !m.over:
		from, to = m.now.Add(-m.to.Sub(m.from)), m.now
	default:
		from, to = m.from, m.to
	}
	if to.Sub(from) < leastSpan {
		to = from.Add(leastSpan)
	}
	return from, to
}

// Zoom shows a part of the time around the selected lane: half of what is shown, or
// twice as much.
func (m *Timeline) Zoom(in bool, born func(*api.Process) time.Time) {
	from, to := m.Span()
	span := to.Sub(from)
	if !in {
		if !m.zoomed {
			return
		}
		if span *= 2; span >= m.now.Sub(m.first) {
			m.Whole()
			return
		}
		m.show(from.Add(-span/4), span)
		return
	}
	if span /= 2; span < leastSpan {
		return
	}
	middle := from.Add(span)
	if m.sel < len(m.lanes) {
		start, end := m.latest(&m.lanes[m.sel], born)
		if start.Before(to) && end.After(from) {
			start, end = latest(start, from), slices.MinFunc([]time.Time{end, to}, time.Time.Compare)
			middle = start.Add(end.Sub(start) / 2)
		}
	}
	m.show(middle.Add(-span/2), span)
}

// latest is when the last process or call of a lane began and ended.
func (m *Timeline) latest(l *lane, born func(*api.Process) time.Time) (start, end time.Time) {
	if n := len(l.calls); n > 0 {
		return m.during(l.calls[n-1])
	}
	return m.life(l.last(), born)
}

// life is when a process was alive, up to now.
func (m *Timeline) life(p *api.Process, born func(*api.Process) time.Time) (start, end time.Time) {
	if p.Exited != nil {
		return born(p), *p.Exited
	}
	return born(p), m.now
}

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// show shows a span, within the session's time.
func (m *Timeline) show(from time.Time, span time.Duration) {
	if to := from.Add(span); to.After(m.now) {
		from = m.now.Add(-span)
	}
	from = latest(from, m.first)
	m.from, m.to, m.zoomed = from, from.Add(span), true
	m.follows = !m.to.Before(m.now)
}

// Pan shows what was earlier or later by a quarter of the span.
func (m *Timeline) Pan(later bool) {
	if !m.zoomed {
		return
	}
	from, to := m.Span()
	by := to.Sub(from) / 4
	if !later {
		by = -by
	}
	m.show(from.Add(by), to.Sub(from))
}

func (m *Timeline) Whole() { m.zoomed, m.follows = false, false }
