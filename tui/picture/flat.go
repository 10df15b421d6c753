package picture

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// Order is how rows are sorted.
func (v *View) Order() Order { return v.order }

// SetOrder sorts the rows: the sessions, and in a list the processes. It shows the first
// of them, which is what the reader wants to see, unless a row is followed.
func (v *View) SetOrder(o Order) {
	v.order, v.sorted = o, false
	v.Picture.sortSessions(o)
	v.refill()
	if v.sel != nil && v.follow == FollowNothing {
		v.Home()
		v.moved = false
	}
}

// Resort puts the rows in order again. Between two calls new rows come last: a list
// that is resorted with each picture is unreadable.
func (v *View) Resort() {
	top := v.line == v.above(v.height)
	if v.mode != Tree {
		v.sorted = false
	} else if v.Picture.sorted {
		v.Picture.sortSessions(v.order)
	}
	if f := v.Picture.filter; f != nil && f.timed {
		v.Picture.SetFilter(f)
	}
	v.restore()
	if top && v.follow == FollowNothing && v.order != (Order{}) {
		v.stayOnTop()
	}
	v.settle()
}

// stayOnTop keeps the first rows of a ranking in sight, and the selected row with them,
// wherever it is now. A row that the reader did not choose gives way to the first one.
func (v *View) stayOnTop() {
	line := v.above(v.height)
	if line == v.height && !v.moved {
		v.choose(v.First())
		line = 0
	}
	if line < v.height {
		v.place(line)
	}
}

// calmAfter is how many seconds without a change pass before the window is filled.
const calmAfter = 3

// settle fills the window when no row has come or gone for a while: until then the
// selected row keeps its line.
func (v *View) settle() {
	rows := int(v.Picture.top.size) + len(v.Picture.sessions)
	if v.calm++; rows != v.rows {
		v.rows, v.calm = rows, 0
	}
	if v.calm >= calmAfter && v.sel != nil {
		v.place(v.line)
	}
}

func (v *View) at(i int) *Row {
	if i < 0 || i >= len(v.flat) {
		return nil
	}
	return v.flat[i]
}

// lists reports whether r belongs in the list.
func (v *View) lists(r *Row) bool {
	if r.gone || r.Kind != ProcessRow || v.Picture.filter != nil && !r.match {
		return false
	}
	switch {
	case v.mode == Calls && (len(r.Process.Calls) == 0 || v.hides() && !r.counted):
		return false
	case v.mode == Orphans && (r.exited() || !r.Process.Orphan && r.Process.State != api.StateZombie):
		return false
	}
	return v.root == v.Picture.top || r.below(v.root)
}

// byCall puts the rows of the same tool calls together, where the first of them is.
func byCall(rows []*Row) {
	first, place := map[string]int{}, make(map[*Row]int, len(rows))
	for i, r := range rows {
		id := r.calls()
		if _, known := first[id]; !known {
			first[id] = i
		}
		place[r] = first[id]
	}
	slices.SortStableFunc(rows, func(a, b *Row) int { return place[a] - place[b] })
}

// listed reports whether r is in the list.
func (v *View) listed(r *Row) bool {
	return r.index >= 0 && int(r.index) < len(v.flat) && v.flat[r.index] == r
}

// list rebuilds the list. The selected row keeps its line; if it is gone from the
// list, the row at its place is selected.
func (v *View) list() {
	at := -1
	if v.sel != nil && v.listed(v.sel) {
		at = int(v.sel.index)
	}
	old := v.flat
	fresh := make([]*Row, 0, len(old))
	for _, r := range old {
		if v.lists(r) {
			fresh = append(fresh, r)
		}
	}
	kept := len(fresh)
	for _, r := range v.Picture.processes {
		if !v.listed(r) && v.lists(r) {
			fresh = append(fresh, r)
		}
	}
	slices.SortFunc(fresh[kept:], (*Row).compare)
	if !v.sorted {
		slices.SortFunc(fresh, func(a, b *Row) int { return v.Picture.compare(v.order, a, b) })
		if v.mode == Calls {
			byCall(fresh)
		}
	}
	v.sorted = true
	for _, r := range old {
		r.index = -1
	}
	v.flat = fresh
	for i, r := range fresh {
		r.index = int32(i)
	}
	if v.sel != nil && !v.listed(v.sel) {
		v.sel = v.at(min(at, len(fresh)-1))
	}
}
