// Package columns has the figures beside the rows of the tree: which of them fit, how
// each is written, and how it sorts.
package columns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/label"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// column is one of the columns. Without sort it has no order of its own.
type column struct {
	name, head string
	width      int
	sort       picture.Sort
	cell       func(l *Facts, r *picture.Row) string
}

// Facts are what cells are written from.
type Facts struct {
	label.Labels
	Activity func(session string) []float64 // CPU% of a session, lately
}

// all are the columns in the order of a row, from the left.
var all = []column{
	{"live", "LIVE", 5, picture.ByLive, func(_ *Facts, r *picture.Row) string {
		return ofSession(r, func(s *api.Session) int { return s.Live })
	}},
	{"orphans", "ORPH", 4, picture.ByOrphans, func(_ *Facts, r *picture.Row) string {
		return ofSession(r, func(s *api.Session) int { return s.Orphans })
	}},
	{"cpu", "CPU%", 5, picture.ByCPU, func(l *Facts, r *picture.Row) string { return percent(l.Picture.CPU(r)) }},
	{"rss", "RSS", 5, picture.ByRSS, rss},
	{"ports", "PORTS", 7, picture.ByPorts, func(_ *Facts, r *picture.Row) string { return label.Ports(r.Listens()) }},
	{"age", "AGE", 6, picture.ByAge, func(l *Facts, r *picture.Row) string { return display.Age(l.Picture.Age(r)) }},
	{"user", "USER", 8, picture.ByUser, func(l *Facts, r *picture.Row) string { return l.User(r.UID()) }},
	{"threads", "THR", 4, picture.ByThreads, threads},
	{"activity", "ACTIVITY", 8, picture.ByCPU, activity},
}

// rating is the order in which columns get room.
var rating = []string{"cpu", "rss", "age", "ports", "live", "orphans", "user", "threads", "activity"}

// tableRating is the rating if only sessions are shown.
var tableRating = []string{"live", "cpu", "rss", "ports", "age", "orphans", "activity", "user"}

// Names are what Parse takes.
func Names() []string { return rating }

// Set is the shown columns, in the order of a row.
type Set []column

// Parse reads names of columns; none: whatever fits.
func Parse(text string) ([]string, error) {
	names := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == ' ' || r == ',' })
	for i, name := range names {
		if !slices.Contains(rating, name) {
			return nil, fmt.Errorf("invalid column %s: want %s", display.Text(name), strings.Join(rating, " "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("column %s is listed twice", name)
		}
	}
	return names, nil
}

// Fit chooses columns for rows of that width. The rest of a row keeps most of the
// width. wanted are the reader's columns, the most important first; table: only
// sessions are shown, whose names are short.
func Fit(width int, wanted []string, table bool) Set {
	room := width - 1 - min(max(width*9/20, 24), 56)
	switch {
	case table:
		room = width - 1 - min(max(width/4, 22), 56)
		wanted = append(slices.Clone(wanted), tableRating...)
	case len(wanted) == 0:
		wanted = rating
	}
	in := map[string]bool{}
	for _, name := range wanted {
		c := all[slices.IndexFunc(all, func(c column) bool { return c.name == name })]
		if in[name] || name == "activity" && !table && width < 130 {
			continue
		}
		if c.width+1 > room {
			break
		}
		in[name] = true
		room -= c.width + 1
	}
	var s Set
	for _, c := range all {
		if in[c.name] {
			s = append(s, c)
		}
	}
	return s
}

// Width is how many columns of the screen the set takes, with a blank at its end.
func (s Set) Width() (n int) {
	for _, c := range s {
		n += c.width + 1
	}
	return n + min(len(s), 1)
}

// Spare is how many of these are empty at the left of a row that is not a session.
func (s Set) Spare(r *picture.Row) (n int) {
	if r.Kind == picture.SessionRow {
		return 0
	}
	for _, c := range s {
		if c.name != "live" && c.name != "orphans" {
			break
		}
		n += c.width + 1
	}
	return n
}

// Head writes the names; an arrow marks the sort column.
func (s Set) Head(t *ink.Theme, o picture.Order, gap string) string {
	var b strings.Builder
	for _, c := range s {
		name, p := c.head, t.Dim
		if c.sort == o.By && c.name != "activity" {
			arrow := t.Falling
			if o.Reverse {
				arrow = t.Rising
			}
			name, p = arrow+name, t.Key
		}
		b.WriteString(t.Border.Of(strings.Repeat(gap, max(c.width+1-ink.Width(name), 0))))
		b.WriteString(p.Of(name))
	}
	if len(s) > 0 {
		b.WriteString(t.Border.Of(gap))
	}
	return b.String()
}

// At is the sort of the column at x, counted from the set's left edge.
func (s Set) At(x int) (picture.Sort, bool) {
	for _, c := range s {
		if x -= c.width + 1; x < 0 {
			return c.sort, true
		}
	}
	return 0, false
}

// Put writes the cells of a row, except the first skip columns of the screen.
func (s Set) Put(line *ink.Line, l *Facts, r *picture.Row, skip int) {
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
func (c *column) look(l *Facts, text string) ink.Paint {
	switch {
	case text == "0" || text == "0.0" || text == "-" || c.name == "age" || c.name == "user":
		return l.Dim
	case c.name == "orphans":
		return l.Moved
	case c.name == "ports" || c.name == "activity":
		return l.Key
	case c.name == "cpu":
		if p, err := strconv.ParseFloat(text, 64); err == nil && p >= busy {
			return l.Warn
		}
	}
	return ink.Paint{}
}

// Next is the order after o: that of the next column, or with back of the previous one.
func (s Set) Next(o picture.Order, back bool) picture.Order {
	var sorts []picture.Sort
	for _, c := range s {
		if !slices.Contains(sorts, c.sort) {
			sorts = append(sorts, c.sort)
		}
	}
	sorts = append(sorts, picture.ByName)
	i, step := slices.Index(sorts, o.By), 1
	if back {
		step = -1
		i = max(i, 0)
	}
	return picture.Order{By: sorts[(i+step+len(sorts))%len(sorts)]}
}

// Over reports whether a row is over, and has no figures.
func Over(r *picture.Row) bool {
	switch {
	case r.Kind == picture.GroupRow:
		return Over(r.First())
	case r.Kind == picture.SessionRow:
		return r.Session.State == api.StateEnded
	}
	return r.Process.State == api.StateExited
}

func ofSession(r *picture.Row, figure func(*api.Session) int) string {
	if r.Kind != picture.SessionRow || Over(r) {
		return ""
	}
	return quantity(figure(r.Session))
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

func rss(_ *Facts, r *picture.Row) string {
	if n := r.RSS(); n > 0 {
		return display.Size(n)
	}
	return "-"
}

func threads(_ *Facts, r *picture.Row) string {
	if r.Threads == 0 {
		return ""
	}
	return quantity(r.Threads)
}

// activity is the CPU% of a session over time; its full height is at least a tenth of a
// CPU.
func activity(l *Facts, r *picture.Row) string {
	if r.Kind != picture.SessionRow || Over(r) || l.Activity == nil {
		return ""
	}
	return l.Sparkline(l.Activity(r.Session.ID), 8, 10)
}
