package picture

import (
	"cmp"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// Sort is the order of a flat list.
type Sort uint8

// The orders of a flat list.
const (
	ByStart Sort = iota
	ByCPU
	ByRSS
	ByPID
	ByCommand
	sorts
)

func (s Sort) String() string {
	return [...]string{"start", "CPU", "RSS", "PID", "command"}[s]
}

// Sort is the order of the flat list, and whether it is locked.
func (v *View) Sort() (order Sort, locked bool) { return v.sort, v.locked }

// NextSort takes the next order.
func (v *View) NextSort() {
	v.sort = (v.sort + 1) % sorts
	v.locked, v.sorted = false, false
	v.restore()
}

// Resort puts the flat list in order again. Between two calls who comes, comes at
// the bottom: a list that is sorted anew with each picture cannot be read.
func (v *View) Resort() {
	if v.mode != Tree {
		v.sorted = false
		v.restore()
	}
}

// Lock keeps the order as it is: who comes, comes at the bottom.
func (v *View) Lock(on bool) {
	v.locked = on
	v.restore()
}

func (v *View) at(i int) *Row {
	if i < 0 || i >= len(v.flat) {
		return nil
	}
	return v.flat[i]
}

// lists tells whether r belongs into the flat list.
func (v *View) lists(r *Row) bool {
	if r.gone || r.Kind != ProcessRow || v.Picture.filter != nil && !r.match {
		return false
	}
	if v.mode == Orphans && (r.Process.State == api.StateExited || !r.Process.Orphan && r.Process.State != api.StateZombie) {
		return false
	}
	return v.root == v.Picture.top || r.below(v.root)
}

// listed tells whether r is in the flat list.
func (v *View) listed(r *Row) bool {
	return r.index >= 0 && int(r.index) < len(v.flat) && v.flat[r.index] == r
}

// list makes the flat list again. The selected row keeps its line; if it is
// gone from the list, the one that comes on its place is selected.
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
	slices.SortFunc(fresh[kept:], ByStart.compare)
	if order := v.order(); !v.sorted && !v.locked {
		slices.SortFunc(fresh, order.compare)
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

// order is the order of the list now: orphans always are in that of their start.
func (v *View) order() Sort {
	if v.mode == Orphans {
		return ByStart
	}
	return v.sort
}

// compare puts the most expensive one first, else the oldest one.
func (s Sort) compare(a, b *Row) int {
	c := 0
	switch s {
	case ByCPU:
		c = cmp.Compare(b.Process.CPUSeconds, a.Process.CPUSeconds)
	case ByRSS:
		c = cmp.Compare(b.Process.RSSBytes, a.Process.RSSBytes)
	case ByPID:
		c = cmp.Compare(a.pid, b.pid)
	case ByCommand:
		c = cmp.Compare(a.Process.Comm, b.Process.Comm)
	}
	return cmp.Or(c, a.compare(b))
}
