package picture

import "github.com/lineage-ebpf/lineage/api"

// View is a reader's place in a picture. The selected row keeps its line on the screen
// while the picture changes around it: drawing starts from it.
type View struct {
	Picture *Picture
	sel     *Row
	line    int // of the selected row, from the top of the window
	height  int // rows of the window
	order   Sort
	hidden  bool // exited processes, unless something alive is below them
	moved   bool // the reader chose the selected row
	calm    int  // how often in a row Resort found as many rows as before
	rows    int  // … that many
}

// NewView makes a view of all of p; p may have only one view.
func NewView(p *Picture) *View {
	v := &View{Picture: p, height: 1}
	p.dropped = v.dropped
	return v
}

func (v *View) Selected() *Row { return v.sel }

// Apply applies b to the picture and keeps the reader's place.
func (v *View) Apply(b *Batch) {
	v.Picture.Apply(b)
	v.restore()
	if !v.moved {
		v.place(v.line)
	}
}

func (v *View) SetPorts(ports map[api.Ref][]int) {
	v.Picture.SetPorts(ports)
	v.restore()
}

// SetFilter shows only the rows that f wants, also below sessions that are folded
// because all are, and selects the first of them unless it wants the selected row.
func (v *View) SetFilter(f *Filter) {
	if p := v.Picture; p.folding && (f == nil) != (p.filter == nil) {
		p.foldSessions(f == nil)
	}
	v.Picture.SetFilter(f)
	v.refill()
	if f != nil && v.sel != nil && !v.sel.match {
		v.Select(v.match(v.Picture.top))
	}
}

// match is the first row below r that the filter wants, also below folded ones.
func (v *View) match(r *Row) *Row {
	for c := v.Child(r); c != nil; c = v.skip(c.next, (*Row).Next) {
		if c.match {
			return c
		}
		if m := v.match(c); m != nil {
			return m
		}
	}
	return nil
}

func (v *View) Fold(r *Row, folded bool) {
	v.Picture.Fold(r, folded)
	v.restore()
}

// SetHeight sets how many rows the window has. If it grows, it is filled.
func (v *View) SetHeight(rows int) {
	rows = max(rows, 1)
	if rows == v.height {
		return
	}
	v.height = rows
	v.line = min(v.line, rows-1)
	if v.sel != nil {
		v.place(v.line)
	}
}

// HideExited hides exited processes with nothing alive below them, or shows them.
func (v *View) HideExited(on bool) {
	v.hidden = on
	v.refill()
}

func (v *View) HidesExited() bool { return v.hidden }

// FoldSessions folds all sessions, or unfolds them if all are folded. Sessions that come
// later look the same.
func (v *View) FoldSessions() {
	v.foldSessions(!v.SessionsFolded())
}

func (v *View) foldSessions(folded bool) {
	v.Picture.folding = folded
	v.Picture.foldSessions(folded)
	v.refill()
}

// FoldIfTooMany folds all sessions, and those that come later, if the last one is below
// the window.
func (v *View) FoldIfTooMany() {
	sessions, rows, last := 0, 0, 0
	for r := v.First(); r != nil; r = v.Next(r) {
		rows++
		if r.Kind == SessionRow && r.Up() == nil && r.Session.State != api.StateEnded {
			sessions, last = sessions+1, rows
		}
	}
	if sessions > 1 && last > v.height {
		v.foldSessions(true)
	}
}

func (v *View) SessionsFolded() bool {
	for r := v.First(); r != nil; r = v.skip(r.next, (*Row).Next) {
		if !r.folded && v.Child(r) != nil {
			return false
		}
	}
	return true
}

// Select moves to r and unfolds what hides it. A row that the view does not show is not selected.
func (v *View) Select(r *Row) bool {
	if r == nil || r.gone || !v.shown(r) {
		return false
	}
	v.moved = true
	v.reveal(r)
	v.sel = r
	v.place(v.line)
	return true
}

func (v *View) choose(r *Row) {
	v.sel = r
	v.Picture.Hold(r)
}

func (v *View) reveal(r *Row) {
	for up := r.up; up != nil; up = up.up {
		v.Picture.Fold(up, false)
	}
}

func (v *View) dropped(r *Row) {
	if r != v.sel {
		return
	}
	if v.sel = v.Next(r); v.sel == nil {
		v.sel = v.Prev(r)
	}
}

// restore finds the selected row again after a change; if it is hidden, the row that
// hides it. It keeps its line, though other rows come and go.
func (v *View) restore() {
	if v.sel != nil && v.sel.gone {
		v.sel = nil
	}
	if v.sel != nil {
		v.sel = v.visible(v.sel)
	}
	if v.sel == nil {
		v.sel = v.First()
	}
	v.Picture.Hold(v.sel)
	v.line = min(v.line, v.above(v.line))
}

// refill is restore after the reader changed which rows are shown: the window is full
// if there are enough rows.
func (v *View) refill() {
	v.restore()
	v.place(v.line)
}

// visible returns r, or the row that represents it, or nil.
func (v *View) visible(r *Row) *Row {
	for up := r.up; up != nil; up = up.up {
		if up.Folded() {
			r = up
		}
	}
	if v.shown(r) {
		return r
	}
	if n := v.Next(r); n != nil {
		return n
	}
	for r = v.Prev(r); r != nil && !v.shown(r); {
		r = v.Prev(r)
	}
	return r
}

// above counts the rows above the selected one, no more than most.
func (v *View) above(most int) int {
	n := 0
	for r := v.sel; r != nil && n < most; n++ {
		if r = v.Prev(r); r == nil {
			break
		}
	}
	return n
}
