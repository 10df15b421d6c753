package picture

import (
	"cmp"
	"maps"
	"slices"

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

// Mark marks r if it is not over; with all, the live processes at and below it. For a
// group, it marks the members.
func (p *Picture) Mark(r *Row, all, on bool) {
	switch {
	case r.Kind == SessionRow && !all && (r.Session.State != api.StateEnded || !on):
		p.setMark(r, on)
	case r.Kind == ProcessRow && (!r.exited() || !on):
		p.setMark(r, on)
	}
	if !all && r.Kind != GroupRow {
		return
	}
	for c := r.first; c != nil; c = c.next {
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
