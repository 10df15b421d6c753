package panes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

type column struct {
	name, head string
	width      int
	sort       picture.Sort
	sessions   bool // that only they have: elsewhere it is empty, and a row's text may use its room
	cell       func(l *Labels, r *picture.Row) string
}

var all = []column{
	{"live", "LIVE", 5, picture.ByLive, true, figure("0", func(s *api.Session) int { return s.Live })},
	{"orphans", "ORPH", 4, picture.ByOrphans, true,
		figure("", func(s *api.Session) int { return s.Orphans })},
	{"leftovers", "LEFT", 4, picture.ByLeftovers, true,
		figure("", func(s *api.Session) int { return s.Leftovers })},
	{"zombies", "ZOMB", 4, picture.ByZombies, true,
		figure("", func(s *api.Session) int { return s.Zombies })},
	{"cpu", "CPU%", 5, picture.ByCPU, false,
		func(l *Labels, r *picture.Row) string { return percent(l.Picture.CPU(r)) }},
	{"rss", "RSS", 5, picture.ByRSS, false, rss},
	ports(7),
	{"age", "AGE", 6, picture.ByAge, false,
		func(l *Labels, r *picture.Row) string { return display.Age(l.Picture.Age(r)) }},
}

// ColumnTitle names an order as the head of its column does.
func ColumnTitle(by picture.Sort) string {
	for _, c := range all {
		if c.sort == by {
			return c.head
		}
	}
	return "name"
}

func ports(width int) column {
	return column{"ports", "PORTS", width, picture.ByPorts, false,
		func(_ *Labels, r *picture.Row) string { return Ports(r.Listens(), width) }}
}

// morePorts is how much wider it is where there is room: for three ports.
const morePorts = 10

// The columns in the order in which they get room; inTable is that of a table of sessions, whose
// names are short. Leftovers and zombies without a column are named in the text of their row.
var (
	inTree  = []string{"cpu", "rss", "live", "orphans", "leftovers", "age", "ports", "zombies"}
	inTable = []string{"live", "orphans", "leftovers", "zombies", "cpu", "rss", "ports", "age"}
)

type Columns []column

// What the text of a row keeps of its width.
const (
	leastText, mostText = 24, 56 // of a process, and of a session in a table
	leastName           = 25     // of a session above its processes
)

// Fit chooses columns beside rows of that width; table: beside sessions only. The text of a
// process keeps most of the width. Columns of sessions take nothing from it, and leave a
// session the room for its name.
func Fit(width int, table bool) (s Columns) {
	order, names, share := inTree, width-1-leastName, width-1-min(max(width*9/20, leastText), mostText)
	if table {
		names = width - 1 - min(max(width/4, leastText-2), mostText)
		order, share = inTable, names
	}
	in, wider := map[string]bool{}, 0
	for _, name := range order {
		c := &all[slices.IndexFunc(all, func(c column) bool { return c.name == name })]
		if c.width+1 > names || !c.sessions && c.width+1 > share {
			break
		}
		in[name] = true
		names -= c.width + 1
		if !c.sessions {
			share -= c.width + 1
		}
	}
	if in["ports"] && min(names, share) >= morePorts {
		wider = morePorts
	}
	for _, c := range all {
		if c.name == "ports" {
			c = ports(c.width + wider)
		}
		if in[c.name] {
			s = append(s, c)
		}
	}
	return s
}

func (s Columns) Has(name string) bool {
	return slices.ContainsFunc(s, func(c column) bool { return c.name == name })
}

// Width is how many columns of the screen the set takes, with a blank at its end.
func (s Columns) Width() (n int) {
	for _, c := range s {
		n += c.width + 1
	}
	return n + min(len(s), 1)
}

// Spare is how many of these are empty at the left of a row that is not a session.
func (s Columns) Spare(r *picture.Row) (n int) {
	if r.Kind == picture.SessionRow {
		return 0
	}
	for _, c := range s {
		if !c.sessions {
			break
		}
		n += c.width + 1
	}
	return n
}

// Head writes the names; an arrow marks the sort column.
func (s Columns) Head(t *ink.Theme, by picture.Sort, gap string) string {
	var b strings.Builder
	for _, c := range s {
		name, p := c.head, t.Dim
		if c.sort == by {
			name, p = t.Falling+name, t.Key
		}
		b.WriteString(t.Border.Of(strings.Repeat(gap, max(c.width+1-ink.Width(name), 0))))
		b.WriteString(p.Of(name))
	}
	if len(s) > 0 {
		b.WriteString(t.Border.Of(gap))
	}
	return b.String()
}

// Put writes the cells of a row, except the first skip columns of the screen.
func (s Columns) Put(line *ink.Line, l *Labels, r *picture.Row, skip int) {
	for _, c := range s {
		if skip >= c.width+1 {
			skip -= c.width + 1
			continue
		}
		text := c.cell(l, r)
		line.Skip(1)
		line.PutRight(c.look(l, text), text, c.width)
	}
}

// busy is the CPU% from which a cell is marked.
const busy = 80

// look is the style of a cell: zero is faint, a value worth noticing is not.
func (c *column) look(l *Labels, text string) ink.Paint {
	switch {
	case text == "0" || text == "0.0" || text == "-" || c.name == "age":
		return l.Dim
	case c.name == "orphans":
		return l.Moved
	case c.name == "leftovers":
		return l.Warn
	case c.name == "zombies":
		return l.Zombie
	case c.name == "ports":
		return l.Key
	case c.name == "cpu":
		if p, err := strconv.ParseFloat(text, 64); err == nil && p >= busy {
			return l.Warn
		}
	}
	return ink.Paint{}
}

// Next is the order after by: that of the next column.
func (s Columns) Next(by picture.Sort) picture.Sort {
	if i := 1 + slices.IndexFunc(s, func(c column) bool { return c.sort == by }); i < len(s) {
		return s[i].sort
	}
	return picture.ByName
}

// Over reports whether a row has no figures: it is over.
func Over(r *picture.Row) bool {
	if r.Kind == picture.SessionRow {
		return r.Session.State == api.StateEnded
	}
	return r.Process.State == api.StateExited
}

// figure is a column of a number that only sessions have; zero is how none is shown.
func figure(zero string, of func(*api.Session) int) func(*Labels, *picture.Row) string {
	return func(_ *Labels, r *picture.Row) string {
		switch {
		case r.Kind != picture.SessionRow || Over(r):
			return ""
		case of(r.Session) == 0:
			return zero
		}
		return quantity(of(r.Session))
	}
}

func quantity(n int) string {
	if n >= 100_000 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

func percent(p float64) string {
	if p < 999.95 {
		return fmt.Sprintf("%.1f", p)
	}
	return fmt.Sprintf("%.0f", p)
}

func rss(_ *Labels, r *picture.Row) string {
	if n := r.RSS(); n > 0 {
		return display.Size(n)
	}
	return "-"
}
