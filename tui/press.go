package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/tui/keys"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// press passes a key to the pane that has the focus.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	if cmd, _, found := keys.Press(msg, []keys.Row{
		keys.Start(m.keys.Suspend, func() tea.Cmd { return tea.Suspend }),
		keys.Start(key.NewBinding(key.WithKeys("ctrl+c")), func() tea.Cmd { return tea.Quit }),
		keys.Start(m.keys.Redraw, func() tea.Cmd { return tea.ClearScreen }),
	}); found {
		return cmd
	}
	switch {
	case m.tooSmall():
		return nil
	case m.dialog != nil:
		cmd, closed := m.dialog.Press(msg)
		if closed && m.dialog.Stage() == panes.Sending {
			m.say("ending continues; the result will be shown here")
		}
		if closed {
			m.dialog = nil
		}
		return cmd
	case m.prompt != nil:
		return m.prompt.press(m, msg)
	}
	m.message = message{}
	if key.Matches(msg, m.keys.Quit) {
		return tea.Quit
	}
	rows := m.treeKeys
	switch {
	case m.focus == onEvents:
		rows = m.eventKeys
	case m.focus != onTree:
		rows = m.readerKeys
	case m.timeline != nil:
		rows = m.timelineKeys
	}
	return m.pressIn(rows, msg)
}

// pressIn carries out a key of a pane, or says why it has no effect.
func (m *model) pressIn(pane func(tea.KeyPressMsg) []keys.Row, msg tea.KeyPressMsg) tea.Cmd {
	cmd, why, _ := keys.Press(msg, pane(msg))
	if why != "" {
		m.complain("%s", why)
	}
	return cmd
}

// opens is the effect of a key that moves the focus.
func (m *model) opens(f focus) func() {
	return func() { m.open(f) }
}

// readerKeys are the keys while details or help have the focus.
func (m *model) readerKeys(msg tea.KeyPressMsg) []keys.Row {
	k := m.keys
	inTree := func() tea.Cmd {
		m.focus = onTree
		return m.pressIn(m.treeKeys, msg)
	}
	return append(keys.Moves(m.read, m.scroll.Height(), k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End),
		keys.On(k.Escape, m.opens(onTree)),
		keys.On(k.Left, m.opens(onTree)),
		keys.On(map[focus]key.Binding{onDetails: k.Details, onHelp: k.Help}[m.focus], m.opens(onTree)),
		keys.On(k.Pane, m.nextPane),
		keys.On(k.Help, m.opens(onHelp)),
		keys.Start(k.EndSession, inTree),
		keys.Start(k.Kill, inTree),
		keys.Start(k.Copy, inTree),
		keys.Start(k.Tree.Timeline, inTree),
	)
}

// read scrolls the details or the help.
func (m *model) read(lines int) { m.scroll.SetYOffset(m.scroll.YOffset() + lines) }

// eventKeys are the keys while the events pane has the focus.
func (m *model) eventKeys(tea.KeyPressMsg) []keys.Row {
	k := m.keys
	return append(keys.Moves(m.events.Scroll, max(m.layout().log-3, 1), k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End),
		keys.On(k.Pane, m.nextPane),
		keys.On(k.Escape, m.opens(onTree)),
		keys.On(k.Left, m.opens(onTree)),
		keys.On(k.Events, m.closeEvents),
		keys.On(k.Help, m.opens(onHelp)),
	)
}

// timelineKeys are the keys while the timeline is shown.
func (m *model) timelineKeys(tea.KeyPressMsg) []keys.Row {
	k, t := m.keys.Timeline, m.timeline
	leave := func() { m.timeline = nil }
	return append(keys.Moves(t.Move, t.Page(), k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End),
		keys.On(k.In, func() { t.Zoom(true, m.labels().Born) }),
		keys.On(k.Out, func() { t.Zoom(false, m.labels().Born) }),
		keys.On(k.Earlier, func() { t.Pan(false) }),
		keys.On(k.Later, func() { t.Pan(true) }),
		keys.On(k.Whole, t.Whole),
		keys.On(k.Select, m.selectLane),
		keys.On(m.keys.Escape, leave),
		keys.On(m.keys.Tree.Timeline, leave),
		keys.On(m.keys.Help, m.opens(onHelp)),
		keys.On(m.keys.Pause, func() { m.held.turn(m.view) }),
	)
}

// treeKeys are the keys while the tree has the focus.
func (m *model) treeKeys(msg tea.KeyPressMsg) []keys.Row {
	k, v, r, set := m.keys, m.view, m.view.Selected(), m.columnSet()
	o := v.Order()
	sort := func(o picture.Order) func() { return func() { m.sort(o) } }
	refusal := m.refusal()
	rows := []keys.Row{
		keys.On(k.Up, func() { v.Move(-1) }),
		keys.On(k.Down, func() { v.Move(1) }),
		keys.On(k.PageUp, func() { v.Page(false) }),
		keys.On(k.PageDown, func() { v.Page(true) }),
		keys.On(k.Home, v.Home),
		keys.On(k.End, v.End),
		keys.Start(k.Search, m.askSearch),
		keys.Start(k.Filter, m.askFilter),
		keys.On(k.Next, func() { m.find(false) }),
		keys.On(k.Prev, func() { m.find(true) }),
		keys.On(k.Help, m.opens(onHelp)),
		keys.On(k.Pause, func() { m.held.turn(v) }),
		keys.On(k.Escape, m.escape),
	}
	if r == nil {
		return append(rows, keys.On(key.NewBinding(key.WithKeys(msg.String())), nil).If(false, "nothing is selected"))
	}
	return append(rows,
		keys.On(k.Left, func() { v.Out(r) }),
		keys.On(k.Right, func() { v.In(r) }),
		keys.On(k.Details, m.opens(onDetails)),
		keys.On(k.Mark, func() { m.mark(r) }),
		keys.On(k.MarkAll, func() { v.Picture.Mark(r, true, true) }),
		keys.On(k.Unmark, v.Picture.Unmark),
		keys.Start(k.Copy, func() tea.Cmd { return m.copy(r) }),
		keys.On(k.Root, func() { v.SetRoot(r) }),
		keys.On(k.Back, v.Widen),
		keys.On(k.Tree.Timeline, func() { m.openTimeline(r) }),
		keys.Start(k.Events, func() tea.Cmd { return m.openEvents(r) }),
		keys.On(k.Pane, m.nextPane),
		keys.Start(k.EndSession, func() tea.Cmd { return m.askEnd(r) }).If(refusal == "", refusal),
		keys.On(k.Kill, func() { m.askKill(r) }).If(refusal == "", refusal),

		keys.On(k.Orphans, func() { v.ToggleFilter(picture.Strays) }),
		keys.On(k.Calls, func() { v.ToggleFilter(picture.Calls) }),
		keys.On(k.FoldAll, v.FoldSessions),
		keys.On(k.Exited, m.toggleExited),
		keys.On(k.Sort, sort(set.Next(o, false))),
		keys.On(k.SortBack, sort(set.Next(o, true))),
		keys.On(k.SortCPU, sort(picture.Order{By: picture.ByCPU})),
		keys.On(k.SortRSS, sort(picture.Order{By: picture.ByRSS})),
		keys.On(k.Reverse, sort(picture.Order{By: o.By, Reverse: !o.Reverse})),
	)
}

// selectLane goes to the last process of the lane in the tree.
func (m *model) selectLane() {
	ref, ok := m.timeline.Selected()
	if !ok {
		return
	}
	if r := m.view.Picture.Process(ref); r != nil {
		m.timeline = nil
		m.show(r)
		return
	}
	m.complain("%s exited too long ago to be in the tree; lineage history has it", ref)
}

func (m *model) open(f focus) {
	m.focus = f
	m.scroll.GotoTop()
}
