package picture

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Find selects the next row that has text, in lower case, in the order of the view,
// wrapping at its end, including folded rows; back: the previous one.
func (v *View) Find(text string, back bool) bool {
	if text == "" || v.sel == nil {
		return false
	}
	step, start := v.after, v.First()
	if back {
		step, start = v.before, v.lowest(anything)
	}
	for r, round := step(v.sel, anything), false; r != v.sel; r = step(r, anything) {
		if r == nil {
			if r = start; r == v.sel || round {
				break
			}
			round = true
		}
		if r.has(text) && v.shown(r) {
			return v.Select(r)
		}
	}
	return v.sel.has(text)
}

// Seek selects the first row that has text, beginning at row from, wrapping at the end
// of the view. If no row has it, it selects from.
func (v *View) Seek(text string, from *Row) bool {
	if from != nil && !from.gone {
		v.Select(from)
	}
	if v.sel != nil && text != "" && v.sel.has(text) {
		return true
	}
	return v.Find(text, false)
}

// Matches counts the rows that have text, and returns the number of the selected row
// among them, 0 if it is not a match.
func (v *View) Matches(text string) (at, all int) {
	for r := v.First(); r != nil; r = v.after(r, anything) {
		if r.has(text) {
			all++
			if r == v.sel {
				at = all
			}
		}
	}
	return at, all
}

// Marked are the marked sessions, and then the marked processes, the oldest first.
func (p *Picture) Marked() []*Row {
	return slices.SortedFunc(maps.Keys(p.marked), func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.compare(b))
	})
}

// Marks is how many there are.
func (p *Picture) Marks() int { return len(p.marked) }

// Mark marks r if it is not over; with all, the live processes at and below it.
func (p *Picture) Mark(r *Row, all, on bool) {
	switch {
	case r.Kind == SessionRow && !all && (r.Session.State != api.StateEnded || !on):
		p.setMark(r, on)
	case r.Kind == ProcessRow && (!r.exited() || !on):
		p.setMark(r, on)
	}
	for c := r.first; all && c != nil; c = c.next {
		p.Mark(c, all, on)
	}
}

func (p *Picture) setMark(r *Row, on bool) {
	if r.Marked = on; on {
		p.marked[r] = true
	} else {
		delete(p.marked, r)
	}
}

// Unmark removes all marks.
func (p *Picture) Unmark() {
	for r := range p.marked {
		p.setMark(r, false)
	}
}

// Filter is what the reader wants to see: the selected sessions, and of a word that names processes only these.
type Filter struct {
	Text      string         // what it wants
	Selection *api.Selection // that was typed; nil: what a key wants
	wants     func(r *Row) bool
}

// The filters that have a key.
var (
	Strays = &Filter{Text: "orphans and zombies", wants: func(r *Row) bool {
		return r.Kind == ProcessRow && (r.Process.State == api.StateZombie || r.Process.Orphan && !r.exited())
	}}
	Calls = &Filter{Text: "tool calls", wants: func(r *Row) bool { return r.Kind == ProcessRow && len(r.Process.Calls) > 0 }}
)

// Typed is the filter as it was typed.
func (f *Filter) Typed() string {
	if f == nil || f.Selection == nil {
		return ""
	}
	return f.Text
}

// Filter is the filter in force, or nil.
func (p *Picture) Filter() *Filter { return p.filter }

// SetFilter shows only the rows that f wants, and the rows above them.
func (p *Picture) SetFilter(f *Filter) {
	p.filter = f
	for _, r := range p.sessions {
		p.rematch(r)
	}
	for _, r := range p.processes {
		p.rematch(r)
	}
}

func (p *Picture) rematch(r *Row) {
	switch match := p.filter != nil && p.wanted(r); {
	case match == r.match:
	case match:
		r.match = true
		r.add(0, 0, 1)
	default:
		r.match = false
		r.add(0, 0, -1)
	}
}

// wanted reports whether the filter wants a row: of a process for its session, or for itself.
func (p *Picture) wanted(r *Row) bool {
	if p.filter.wants != nil {
		return p.filter.wants(r)
	}
	in := p.sessions[r.SessionID()]
	if in == nil || !p.filter.Selection.Allows(in.Session) {
		return false
	}
	words := p.filter.Selection.Words
	return len(words) == 0 || slices.ContainsFunc(words, func(word string) bool {
		return api.Means(word, in.Session) || len(word) >= api.ShortestID && strings.HasPrefix(in.Session.ID, word) ||
			r.Kind == ProcessRow && r.named(word)
	})
}

// named reports whether a word names a process, by PID, PID@START or :PORT.
func (r *Row) named(word string) bool {
	switch {
	case word[0] == ':':
		_, port, err := api.ParsePort(word)
		return err == nil && slices.Contains(r.Ports, port)
	case word[0] < '0' || word[0] > '9':
		return false
	}
	ref, err := api.ParseRef(word)
	return err == nil && ref.PID == r.Process.PID && (ref.StartNS == 0 || ref == r.Process.Ref)
}

// has reports whether value, in lower case, is in the text of the row.
func (r *Row) has(value string) bool {
	switch r.Kind {
	case SessionRow:
		return strings.HasPrefix(r.Session.ID, value) || contains(r.Session.Name, value)
	case ProcessRow:
		pr := r.Process
		return contains(pr.Comm, value) || strconv.Itoa(pr.PID) == value ||
			slices.ContainsFunc(pr.Argv, func(s string) bool { return contains(s, value) }) ||
			strings.Contains(value, " ") && contains(strings.Join(pr.Argv, " "), value)
	}
	return false
}

// contains reports whether s contains value, which is in lower case, ignoring case.
func contains(s, value string) bool { return strings.Contains(strings.ToLower(s), value) }
