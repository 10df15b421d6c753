package ink

import (
	"reflect"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// TreeKeys are the keys of the tree of sessions, and the keys that work everywhere.
type TreeKeys struct {
	Up, Down, Home, End, PageUp, PageDown  key.Binding
	Left, Right, FoldAll                   key.Binding
	Details, Events, Pane                  key.Binding
	Search, Filter, Orphans, Calls, Exited key.Binding
	Timeline, Sort, SortCPU, SortRSS       key.Binding
	EndSession, Kill                       key.Binding
	Help, Escape, Quit, Suspend, Redraw    key.Binding
}

type TimelineKeys struct {
	In, Out, Earlier, Later, Whole, Up, Down, Home, End, PageUp, PageDown, Select key.Binding
}

// DialogKeys are the keys of the dialogs that end or kill.
type DialogKeys struct {
	Prev, Next, Confirm, Cancel, Up, Down, PageUp, PageDown key.Binding
}

// KeyMap is every key.
type KeyMap struct {
	TreeKeys
	Timeline TimelineKeys
	Dialog   DialogKeys
}

func bind(help, does string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, does))
}

// Named is the binding with another help text, for a footer.
func Named(b key.Binding, keys, does string) key.Binding {
	b.SetHelp(keys, does)
	return b
}

func NewKeys() KeyMap {
	return KeyMap{
		TreeKeys: TreeKeys{
			Up:         bind("↑ k", "up", "up", "k"),
			Down:       bind("↓ j", "down", "down", "j"),
			Home:       bind("g", "first row", "g", "home"),
			End:        bind("G", "last row", "G", "end"),
			PageUp:     bind("PgUp", "page up", "pgup", "ctrl+b"),
			PageDown:   bind("PgDn", "page down", "pgdown", "ctrl+f"),
			Left:       bind("← h", "fold; go to the creator", "left", "h"),
			Right:      bind("→ l", "unfold; go to the first child", "right", "l"),
			FoldAll:    bind("z", "fold all sessions to a table; unfold them", "z"),
			Details:    bind("Enter i", "details: why the process is in its session", "enter", "i"),
			Events:     bind("v", "events of the session, as they happen", "v"),
			Pane:       bind("Tab", "next pane", "tab"),
			Search:     bind("/", "show only rows with a text in the command or name", "/"),
			Filter:     bind("f", "filter: select sessions in the words of \"lineage ls\"", "f"),
			Timeline:   bind("T", "timeline of the session", "T"),
			Orphans:    bind("o", "orphans and zombies only", "o"),
			Calls:      bind("b", "only what tool calls started", "b"),
			Exited:     bind("e", "show or hide exited processes", "e"),
			Sort:       bind("s", "sort by the next column", "s"),
			SortCPU:    bind("P", "sort by CPU%", "P"),
			SortRSS:    bind("M", "sort by memory (RSS)", "M"),
			EndSession: bind("x", "end the session of the row", "x"),
			Kill:       bind("X", "kill only this process", "X"),
			Help:       bind("?", "help", "?", "f1"),
			Escape:     bind("Esc", "back", "esc"),
			Quit:       bind("q", "quit (ends nothing)", "q", "ctrl+c"),
			Suspend:    bind("Ctrl-Z", "suspend", "ctrl+z"),
			Redraw:     bind("Ctrl-L", "draw the screen again", "ctrl+l"),
		},
		Timeline: TimelineKeys{
			In:       bind("+", "zoom in around the selected lane", "+", "="),
			Out:      bind("-", "zoom out", "-"),
			Earlier:  bind("← h", "earlier", "left", "h"),
			Later:    bind("→ l", "later", "right", "l"),
			Whole:    bind("0", "the whole session, up to now", "0"),
			Up:       bind("↑ k", "up", "up", "k"),
			Down:     bind("↓ j", "down", "down", "j"),
			Home:     bind("g", "first lane", "g", "home"),
			End:      bind("G", "last lane", "G", "end"),
			PageUp:   bind("PgUp", "page up", "pgup", "ctrl+b"),
			PageDown: bind("PgDn", "page down", "pgdown", "ctrl+f"),
			Select:   bind("Enter", "go to the process in the tree", "enter"),
		},
		Dialog: DialogKeys{
			Prev:     bind("← h", "previous choice", "left", "h", "shift+tab"),
			Next:     bind("→ l Tab", "next choice", "right", "l", "tab"),
			Confirm:  bind("Enter", "do it (Cancel at first); close the result", "enter"),
			Cancel:   bind("Esc q n", "cancel; close the result", "esc", "q", "n"),
			Up:       bind("↑ k", "scroll up", "up", "k"),
			Down:     bind("↓ j", "scroll down", "down", "j"),
			PageUp:   bind("PgUp", "scroll a page up", "pgup"),
			PageDown: bind("PgDn", "scroll a page down", "pgdown"),
		},
	}
}

type keyGroup struct {
	Title string
	Keys  []key.Binding
}

func (m KeyMap) Groups() []keyGroup {
	t := m.TreeKeys
	return []keyGroup{
		{"Act", []key.Binding{t.EndSession, t.Kill}},
		{"Look", []key.Binding{t.Details, t.Timeline, t.Events, t.Pane}},
		{"Move", []key.Binding{t.Up, t.Down, t.Left, t.Right, t.FoldAll, t.Home, t.End, t.PageUp, t.PageDown}},
		{"Find", []key.Binding{t.Filter, t.Search, t.Orphans, t.Calls, t.Exited}},
		{"Arrange", []key.Binding{t.Sort, t.SortCPU, t.SortRSS}},
		{"Leave", []key.Binding{t.Help, t.Escape, t.Quit, t.Suspend, t.Redraw}},
		{"In the timeline", bindings(m.Timeline)},
		{"In the dialog that ends", bindings(m.Dialog)},
	}
}

func bindings(of any) (all []key.Binding) {
	for v, i := reflect.ValueOf(of), 0; i < v.NumField(); i++ {
		all = append(all, v.Field(i).Interface().(key.Binding))
	}
	return all
}

// Short is what the footer of the tree shows, the most needed first: how to end a
// session, and how to see why a process belongs to it. Folded: all sessions are.
func (t TreeKeys) Short(folded bool) []key.Binding {
	fold := "fold all"
	if folded {
		fold = "unfold all"
	}
	return []key.Binding{
		Named(t.EndSession, "x", "end"), Named(t.Details, "Enter", "why"), t.Help, Named(t.Quit, "q", "quit"),
		Named(t.Search, "/", "search"), Named(t.Filter, "f", "filter"), Named(t.FoldAll, "z", fold),
		Named(t.Exited, "e", "exited"),
		Named(t.Timeline, "T", "timeline"), Named(t.Events, "v", "events"), Named(t.Sort, "s", "sort"),
		Named(t.Orphans, "o", "orphans"),
	}
}

func (t TimelineKeys) Short(escape, quit key.Binding) []key.Binding {
	return []key.Binding{
		escape, Named(t.In, "+-", "zoom"), Named(t.Earlier, "←→", "pan"),
		Named(t.Whole, "0", "whole"), Named(t.Select, "Enter", "go to"),
		t.Up, t.Down, Named(quit, "q", "quit"),
	}
}

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
