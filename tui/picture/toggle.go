package picture

// ToggleFilter shows only what the filter wants; again: everything.
func (v *View) ToggleFilter(f *Filter) {
	if v.Picture.filter == f {
		f = nil
	}
	v.SetFilter(f)
}

// Out folds r, or goes to the row above it in the tree.
func (v *View) Out(r *Row) {
	switch {
	case v.Child(r) != nil && !r.Folded():
		v.Fold(r, true)
	case r.Up() != nil:
		v.Select(r.Up())
	}
}

// In unfolds r, or goes to its first child.
func (v *View) In(r *Row) {
	switch {
	case v.Child(r) == nil:
	case r.Folded():
		v.Fold(r, false)
	default:
		v.Move(1)
	}
}
