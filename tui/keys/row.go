package keys

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// Row is a key of a pane: its names and its help, why it has no effect now, and its effect.
type Row struct {
	key.Binding
	unless string
	do     func() tea.Cmd
}

// On is a key whose effect is over at once.
func On(k key.Binding, do func()) Row {
	return Start(k, func() tea.Cmd {
		do()
		return nil
	})
}

// Start is a key whose effect begins something.
func Start(k key.Binding, do func() tea.Cmd) Row { return Row{k, "", do} }

// farthest is more lines than there are.
const farthest = 1 << 20

// Moves are the keys that move by lines: one up, one down, a page up, a page down, to the
// first one and to the last one. by gets a negative number for up.
func Moves(by func(lines int), page int, keys ...key.Binding) (rows []Row) {
	for i, lines := range []int{-1, 1, -page, page, -farthest, farthest}[:len(keys)] {
		rows = append(rows, On(keys[i], func() { by(lines) }))
	}
	return rows
}

// If gives the row an effect only if ok, and says why not otherwise.
func (r Row) If(ok bool, why string) Row {
	if !ok {
		r.unless = why
	}
	return r
}

// Press carries out the first row that has the key. why says why that had no effect;
// found is false if no row has the key.
func Press(msg tea.KeyPressMsg, rows []Row) (cmd tea.Cmd, why string, found bool) {
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
