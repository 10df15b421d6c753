package tui

import "charm.land/bubbles/v2/key"

// KeyMap is every key of the view. The footer, the help and docs/KEYS.md are
// made of it.
type KeyMap struct {
	Up, Down, Home, End, PageUp, PageDown      key.Binding
	Left, Right                                key.Binding
	Details, PID                               key.Binding
	Mark, MarkAll, Unmark                      key.Binding
	Search, Next, Prev, Filter                 key.Binding
	Root, Back                                 key.Binding
	FollowRow, FollowNewest                    key.Binding
	Pause, Flat, Sort, Lock, Timeline, Orphans key.Binding
	EndSession, Kill                           key.Binding
	Help, Escape, Quit, Suspend                key.Binding
}

func bind(help, does string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, does))
}

// NewKeyMap gives the keys.
func NewKeyMap() KeyMap {
	return KeyMap{
		Up:           bind("↑ k", "up", "up", "k"),
		Down:         bind("↓ j", "down", "down", "j"),
		Home:         bind("g", "first row", "g", "home"),
		End:          bind("G", "last row", "G", "end"),
		PageUp:       bind("PgUp", "a page up", "pgup", "ctrl+b"),
		PageDown:     bind("PgDn", "a page down", "pgdown", "ctrl+f"),
		Left:         bind("← h", "fold; parent", "left", "h"),
		Right:        bind("→ l", "unfold; first child", "right", "l"),
		Details:      bind("Enter i", "details: why it is in its session", "enter", "i"),
		PID:          bind("digits Enter", "go to PID", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
		Mark:         bind("Space", "mark", "space"),
		MarkAll:      bind("c", "mark it and all below", "c"),
		Unmark:       bind("U", "unmark all", "U"),
		Search:       bind("/", "search", "/"),
		Next:         bind("n", "next match", "n"),
		Prev:         bind("N", "match before", "N"),
		Filter:       bind("f", "filter (comm: uid: state: session: !)", "f"),
		Root:         bind(".", "root the view here", "."),
		Back:         bind("Backspace", "root the view one up", "backspace"),
		FollowRow:    bind("F", "follow the row", "F"),
		FollowNewest: bind("L", "follow the newest process", "L"),
		Pause:        bind("p", "pause painting", "p"),
		Flat:         bind("t", "tree or flat list", "t"),
		Sort:         bind("s", "sort the flat list", "s"),
		Lock:         bind("S", "lock its order", "S"),
		Timeline:     bind("T", "timeline of the session", "T"),
		Orphans:      bind("o", "orphans and zombies", "o"),
		EndSession:   bind("x", "end the session of the row or the marked rows", "x"),
		Kill:         bind("X", "kill this process only, or the marked ones", "X"),
		Help:         bind("?", "help", "?", "f1"),
		Escape:       bind("Esc", "back", "esc"),
		Quit:         bind("q", "quit (ends nothing)", "q", "ctrl+c"),
		Suspend:      bind("Ctrl-Z", "suspend", "ctrl+z"),
	}
}

// Group is keys that belong together.
type Group struct {
	Title string
	Keys  []key.Binding
}

// Groups gives every key, under a title.
func (k KeyMap) Groups() []Group {
	return []Group{
		{"Act", []key.Binding{k.EndSession, k.Kill, k.Mark, k.MarkAll, k.Unmark}},
		{"Look", []key.Binding{k.Details, k.Timeline, k.Orphans, k.Pause, k.FollowRow, k.FollowNewest}},
		{"Move", []key.Binding{k.Up, k.Down, k.Left, k.Right, k.Home, k.End, k.PageUp, k.PageDown, k.PID}},
		{"Find", []key.Binding{k.Filter, k.Search, k.Next, k.Prev, k.Root, k.Back}},
		{"Arrange", []key.Binding{k.Flat, k.Sort, k.Lock}},
		{"Leave", []key.Binding{k.Help, k.Escape, k.Quit, k.Suspend}},
	}
}

// ShortHelp is what the footer of the tree shows, the most needed first: how to
// end a session, and how to see why a process belongs to it.
func (k KeyMap) ShortHelp() []key.Binding {
	short := func(b key.Binding, keys, does string) key.Binding {
		b.SetHelp(keys, does)
		return b
	}
	return []key.Binding{
		short(k.EndSession, "x", "end"), short(k.Details, "Enter", "why"), k.Help, short(k.Quit, "q", "quit"),
		k.Search, short(k.Filter, "f", "filter"), short(k.Left, "←→", "fold"), short(k.Timeline, "T", "timeline"),
		short(k.Orphans, "o", "orphans"), short(k.Pause, "p", "pause"), short(k.Root, ".", "root here"),
	}
}

// FullHelp is every key.
func (k KeyMap) FullHelp() (all [][]key.Binding) {
	for _, g := range k.Groups() {
		all = append(all, g.Keys)
	}
	return all
}
