package ink

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// KeyRow is a key of a pane: its names and its help, why it has no effect now, and its effect.
type KeyRow struct {
	key.Binding
	unless string
	do     func() tea.Cmd
}

// OnKey is a key whose effect is over at once.
func OnKey(k key.Binding, do func()) KeyRow {
	return StartKey(k, func() tea.Cmd {
		do()
		return nil
	})
}

// StartKey is a key whose effect begins something.
func StartKey(k key.Binding, do func() tea.Cmd) KeyRow { return KeyRow{k, "", do} }

// farthest is more lines than there are.
const farthest = 1 << 20

// Moves are the keys that move by lines: one up, one down, a page up, a page down, to the
// first one and to the last one. by gets a negative number for up.
func Moves(by func(lines int), page int, keys ...key.Binding) (rows []KeyRow) {
	for i, lines := range []int{-1, 1, -page, page, -farthest, farthest}[:len(keys)] {
		rows = append(rows, OnKey(keys[i], func() { by(lines) }))
	}
	return rows
}

// If gives the row an effect only if ok, and says why not otherwise.
func (r KeyRow) If(ok bool, why string) KeyRow {
	if !ok {
		r.unless = why
	}
	return r
}

// Press carries out the first row that has the key. why says why that had no effect;
// found is false if no row has the key.
func Press(msg tea.KeyPressMsg, rows []KeyRow) (cmd tea.Cmd, why string, found bool) {
	for _, r := range rows {
		switch {
		case !key.Matches(msg, r.Binding):
		case r.unless != "":
			return nil, r.unless, true
		default:
			return r.do(), "", true
		}
	}
	return nil, "", false
}
