package picture

import "slices"

// shown reports whether r passes the filter, and is not hidden as exited.
func (v *View) shown(r *Row) bool {
	if v.Picture.filter != nil && r.hits == 0 {
		return false
	}
	return r.live > 0 || r.Kind == SessionRow || !v.hidden
}

// Child is the first row right below r that would be shown, or nil.
func (v *View) Child(r *Row) *Row { return v.skip(r.first, (*Row).Next) }

// Below is how many processes below r would be shown.
func (v *View) Below(r *Row) int {
	n, itself := r.size, r.Kind == ProcessRow
	if v.hidden {
		n, itself = r.live, r.counted
	}
	if itself {
		n--
	}
	return int(n)
}

// Hidden is how many processes are hidden as exited.
func (v *View) Hidden() int {
	if !v.hidden {
		return 0
	}
	return int(v.Picture.top.size - v.Picture.top.live)
}

func (v *View) First() *Row { return v.Child(v.Picture.top) }

func (v *View) Last() *Row {
	if r := v.deepest(v.Picture.top); r.Kind != topRow {
		return r
	}
	return nil
}

func (v *View) Next(r *Row) *Row {
	if c := v.Child(r); c != nil && !r.folded {
		return c
	}
	for ; r != nil; r = r.up {
		if n := v.skip(r.next, (*Row).Next); n != nil {
			return n
		}
	}
	return nil
}

func (v *View) Prev(r *Row) *Row {
	if p := v.skip(r.prev, (*Row).previous); p != nil {
		return v.deepest(p)
	}
	return r.Up()
}

func (r *Row) previous() *Row { return r.prev }

// skip returns the first row that is shown, of r and the rows that step leads to.
func (v *View) skip(r *Row, step func(*Row) *Row) *Row {
	for r != nil && !v.shown(r) {
		r = step(r)
	}
	return r
}

// deepest is the lowest row that is shown at or below r.
func (v *View) deepest(r *Row) *Row {
	for !r.folded {
		c := v.skip(r.last, (*Row).previous)
		if c == nil {
			break
		}
		r = c
	}
	return r
}

// Move moves the selection by n rows, down if n > 0, and its line within the window.
func (v *View) Move(n int) {
	v.moved = true
	step, by := v.Next, 1
	if n < 0 {
		step, by, n = v.Prev, -1, -n
	}
	for ; n > 0 && v.sel != nil; n-- {
		r := step(v.sel)
		if r == nil {
			break
		}
		v.sel = r
		v.line += by
	}
	v.place(v.line)
}

func (v *View) Page(down bool) {
	line, n := v.line, max(v.height-1, 1)
	if !down {
		n = -n
	}
	v.Move(n)
	v.place(line)
}

func (v *View) Home() { v.jump(v.First(), 0) }

func (v *View) End() { v.jump(v.Last(), v.height-1) }

func (v *View) jump(r *Row, line int) {
	v.moved = true
	v.choose(r)
	v.place(line)
}

// place puts the selected row on a line, or near it, so that the window is
// full if there are rows enough.
func (v *View) place(line int) {
	v.choose(v.sel)
	below := 0
	for r := v.sel; r != nil && below < v.height; below++ {
		if r = v.Next(r); r == nil {
			break
		}
	}
	line = min(max(line, v.height-1-below, 0), v.height-1)
	v.line = v.above(line)
}

func (v *View) Window() []*Row {
	if v.sel == nil {
		return nil
	}
	top := v.sel
	for range v.line {
		if r := v.Prev(top); r != nil {
			top = r
		}
	}
	rows := make([]*Row, 0, v.height)
	for r := top; r != nil && len(rows) < v.height; r = v.Next(r) {
		rows = append(rows, r)
	}
	return rows
}

func (v *View) More(window []*Row) (above, below bool) {
	if len(window) == 0 {
		return false, false
	}
	return v.Prev(window[0]) != nil, v.Next(window[len(window)-1]) != nil
}

// Depth is how many rows r is below the topmost one that is shown.
func (v *View) Depth(r *Row) int {
	n := 0
	for ; r.Up() != nil; r = r.up {
		n++
	}
	return n
}

// Guides finds, in one window, for the rows that lead to r, at most most of them, the outermost first and r last, whether
// another row follows below the same creator.
func (v *View) Guides() func(r *Row, most int) []bool {
	follows := map[*Row]bool{}
	return func(r *Row, most int) (lines []bool) {
		for ; r.Up() != nil && len(lines) < most; r = r.up {
			more, known := follows[r]
			if !known {
				more = v.skip(r.next, (*Row).Next) != nil
				follows[r] = more
			}
			lines = append(lines, more)
		}
		slices.Reverse(lines)
		return lines
	}
}
