package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	if cmd, _, found := ink.Press(msg, []ink.KeyRow{
		ink.StartKey(m.keys.Suspend, func() tea.Cmd { return tea.Suspend }),
		ink.StartKey(key.NewBinding(key.WithKeys("ctrl+c")), func() tea.Cmd { return tea.Quit }),
		ink.StartKey(m.keys.Redraw, func() tea.Cmd { return tea.ClearScreen }),
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
func (m *model) pressIn(pane func(tea.KeyPressMsg) []ink.KeyRow, msg tea.KeyPressMsg) tea.Cmd {
	cmd, why, _ := ink.Press(msg, pane(msg))
	if why != "" {
		m.complain("%s", why)
	}
	return cmd
}

func (m *model) opens(f focus) func() {
	return func() { m.open(f) }
}

// readerKeys are the keys while details or help have the focus.
func (m *model) readerKeys(msg tea.KeyPressMsg) []ink.KeyRow {
	k := m.keys
	inTree := func() tea.Cmd {
		m.focus = onTree
		return m.pressIn(m.treeKeys, msg)
	}
	return append(ink.Moves(m.read, m.scroll.Height(), k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End),
		ink.OnKey(k.Escape, m.opens(onTree)),
		ink.OnKey(k.Left, m.opens(onTree)),
		ink.OnKey(map[focus]key.Binding{onDetails: k.Details, onHelp: k.Help}[m.focus], m.opens(onTree)),
		ink.OnKey(k.Pane, m.nextPane),
		ink.OnKey(k.Help, m.opens(onHelp)),
		ink.StartKey(k.EndSession, inTree),
		ink.StartKey(k.Kill, inTree),
		ink.StartKey(k.TreeKeys.Timeline, inTree),
	)
}

func (m *model) read(lines int) { m.scroll.SetYOffset(m.scroll.YOffset() + lines) }

func (m *model) eventKeys(tea.KeyPressMsg) []ink.KeyRow {
	k := m.keys
	return append(ink.Moves(m.events.Scroll, max(m.layout().log-3, 1), k.Up, k.Down,
		k.PageUp, k.PageDown, k.Home, k.End),
		ink.OnKey(k.Pane, m.nextPane),
		ink.OnKey(k.Escape, m.opens(onTree)),
		ink.OnKey(k.Left, m.opens(onTree)),
		ink.OnKey(k.Events, m.closeEvents),
		ink.OnKey(k.Help, m.opens(onHelp)),
	)
}

func (m *model) timelineKeys(tea.KeyPressMsg) []ink.KeyRow {
	k, t := m.keys.Timeline, m.timeline
	leave := func() { m.timeline = nil }
	return append(ink.Moves(t.Move, t.Page(), k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End),
		ink.OnKey(k.In, func() { t.Zoom(true, m.labels().Born) }),
		ink.OnKey(k.Out, func() { t.Zoom(false, m.labels().Born) }),
		ink.OnKey(k.Earlier, func() { t.Pan(false) }),
		ink.OnKey(k.Later, func() { t.Pan(true) }),
		ink.OnKey(k.Whole, t.Whole),
		ink.OnKey(k.Select, m.selectLane),
		ink.OnKey(m.keys.Escape, leave),
		ink.OnKey(m.keys.TreeKeys.Timeline, leave),
		ink.OnKey(m.keys.Help, m.opens(onHelp)),
	)
}

func (m *model) treeKeys(msg tea.KeyPressMsg) []ink.KeyRow {
	k, v, r := m.keys, m.view, m.view.Selected()
	sort := func(by picture.Sort) func() { return func() { m.sort(by) } }
	refusal := m.refusal()
	rows := []ink.KeyRow{
		ink.OnKey(k.Up, func() { v.Move(-1) }),
		ink.OnKey(k.Down, func() { v.Move(1) }),
		ink.OnKey(k.PageUp, func() { v.Page(false) }),
		ink.OnKey(k.PageDown, func() { v.Page(true) }),
		ink.OnKey(k.Home, v.Home),
		ink.OnKey(k.End, v.End),
		ink.StartKey(k.Search, m.askText),
		ink.StartKey(k.Filter, m.askFilter),
		ink.OnKey(k.Help, m.opens(onHelp)),
		ink.OnKey(k.Escape, m.escape),
	}
	if r == nil {
		return append(rows, ink.OnKey(key.NewBinding(key.WithKeys(msg.String())),
			nil).If(false, "nothing is selected"))
	}
	return append(rows,
		ink.OnKey(k.Left, func() { v.Out(r) }),
		ink.OnKey(k.Right, func() { v.In(r) }),
		ink.OnKey(k.Details, m.opens(onDetails)),
		ink.OnKey(k.TreeKeys.Timeline, func() { m.openTimeline(r) }),
		ink.StartKey(k.Events, func() tea.Cmd { return m.openEvents(r) }),
		ink.OnKey(k.Pane, m.nextPane),
		ink.StartKey(k.EndSession, func() tea.Cmd { return m.askEnd(r) }).If(refusal == "", refusal),
		ink.OnKey(k.Kill, func() { m.askKill(r) }).If(refusal == "", refusal),

		ink.OnKey(k.Orphans, func() { v.ToggleFilter(picture.Strays) }),
		ink.OnKey(k.Calls, func() { v.ToggleFilter(picture.Calls) }),
		ink.OnKey(k.FoldAll, v.FoldSessions),
		ink.OnKey(k.Exited, m.toggleExited),
		ink.OnKey(k.Sort, sort(m.columnSet().Next(v.Order()))),
		ink.OnKey(k.SortCPU, sort(picture.ByCPU)),
		ink.OnKey(k.SortRSS, sort(picture.ByRSS)),
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
