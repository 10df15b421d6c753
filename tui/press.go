package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/tui/dialog"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// press passes a key to the pane that has the focus.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(msg, m.keys.Suspend):
		return tea.Suspend
	case msg.String() == "ctrl+c":
		return tea.Quit
	case key.Matches(msg, m.keys.Redraw):
		return tea.ClearScreen
	case m.tooSmall():
		return nil
	case m.dialog != nil:
		return m.inDialog(msg)
	case m.prompt != nil:
		return m.prompt.press(m, msg)
	}
	m.message = message{}
	switch {
	case key.Matches(msg, m.keys.Quit):
		return tea.Quit
	case m.focus == onEvents:
		return m.inEvents(msg)
	case m.focus != onTree:
		return m.read(msg)
	case m.timeline != nil:
		return m.inTimeline(msg)
	}
	return m.act(msg)
}

func (m *model) inDialog(msg tea.KeyPressMsg) tea.Cmd {
	d := m.dialog
	cmd, closed := d.Press(msg)
	if closed {
		m.dialog = nil
		if d.Stage() == dialog.Sending {
			m.say("ending continues; the result will be shown here")
		}
	}
	return cmd
}

// read handles keys while details or help have the focus.
func (m *model) read(msg tea.KeyPressMsg) tea.Cmd {
	k := m.keys
	switch {
	case key.Matches(msg, k.Escape, k.Left), m.focus == onDetails && key.Matches(msg, k.Details), m.focus == onHelp && key.Matches(msg, k.Help):
		m.focus = onTree
	case key.Matches(msg, k.Pane):
		m.nextPane()
	case key.Matches(msg, k.Up):
		m.scroll.ScrollUp(1)
	case key.Matches(msg, k.Down):
		m.scroll.ScrollDown(1)
	case key.Matches(msg, k.PageUp):
		m.scroll.PageUp()
	case key.Matches(msg, k.PageDown):
		m.scroll.PageDown()
	case key.Matches(msg, k.Home):
		m.scroll.GotoTop()
	case key.Matches(msg, k.End):
		m.scroll.GotoBottom()
	case key.Matches(msg, k.Help):
		m.open(onHelp)
	case key.Matches(msg, k.EndSession, k.Kill, k.Copy, k.Tree.Timeline):
		m.focus = onTree
		return m.act(msg)
	}
	return nil
}

// inEvents handles keys while the events pane has the focus.
func (m *model) inEvents(msg tea.KeyPressMsg) tea.Cmd {
	k, page := m.keys, max(m.layout().log-3, 1)
	switch {
	case key.Matches(msg, k.Up):
		m.events.Scroll(1)
	case key.Matches(msg, k.Down):
		m.events.Scroll(-1)
	case key.Matches(msg, k.PageUp):
		m.events.Scroll(page)
	case key.Matches(msg, k.PageDown):
		m.events.Scroll(-page)
	case key.Matches(msg, k.Home):
		m.events.Scroll(1 << 20)
	case key.Matches(msg, k.End):
		m.events.Scroll(-1 << 20)
	case key.Matches(msg, k.Pane):
		m.nextPane()
	case key.Matches(msg, k.Escape, k.Left):
		m.focus = onTree
	case key.Matches(msg, k.Events):
		m.closeEvents()
	case key.Matches(msg, k.Help):
		m.open(onHelp)
	}
	return nil
}

// inTimeline handles keys while the timeline is shown.
func (m *model) inTimeline(msg tea.KeyPressMsg) tea.Cmd {
	k, t := m.keys.Timeline, m.timeline
	switch {
	case key.Matches(msg, k.In):
		t.Zoom(true, m.labels().Born)
	case key.Matches(msg, k.Out):
		t.Zoom(false, m.labels().Born)
	case key.Matches(msg, k.Earlier):
		t.Pan(false)
	case key.Matches(msg, k.Later):
		t.Pan(true)
	case key.Matches(msg, k.Whole):
		t.Whole()
	case key.Matches(msg, k.Up):
		t.Move(-1)
	case key.Matches(msg, k.Down):
		t.Move(1)
	case key.Matches(msg, k.Home):
		t.Move(-1 << 20)
	case key.Matches(msg, k.End):
		t.Move(1 << 20)
	case key.Matches(msg, k.PageUp):
		t.Move(-t.Page())
	case key.Matches(msg, k.PageDown):
		t.Move(t.Page())
	case key.Matches(msg, k.Select):
		m.selectLane()
	case key.Matches(msg, m.keys.Escape, m.keys.Tree.Timeline):
		m.timeline = nil
	case key.Matches(msg, m.keys.Help):
		m.open(onHelp)
	case key.Matches(msg, m.keys.Pause):
		m.held.turn(m.view)
	}
	return nil
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

// pointed handles the mouse.
func (m *model) pointed(msg tea.MouseMsg) tea.Cmd {
	at := msg.Mouse()
	switch msg.(type) {
	case tea.MouseWheelMsg:
		m.wheel(at)
	case tea.MouseClickMsg:
		if at.Button == tea.MouseLeft && m.dialog == nil && m.prompt == nil && !m.tooSmall() {
			m.click(at)
		}
	}
	return nil
}

// wheel scrolls what is below the pointer.
func (m *model) wheel(at tea.Mouse) {
	by := 3
	switch at.Button {
	case tea.MouseWheelUp:
		by = -by
	case tea.MouseWheelDown:
	default:
		return
	}
	l := m.layout()
	switch {
	case m.tooSmall() || m.prompt != nil:
	case m.dialog != nil:
		m.dialog.Scroll(by)
	case m.focus == onHelp, m.focus == onDetails && (l.detail == 0 || at.X >= l.tree):
		m.scroll.ScrollDown(by)
	case m.events != nil && at.Y > l.body:
		m.events.Scroll(-by)
	case m.timeline != nil:
		m.timeline.Move(by)
	default:
		m.view.Move(by)
	}
}

// click selects a row, opens its details, folds it, or sorts by a column.
func (m *model) click(at tea.Mouse) {
	l := m.layout()
	x, y := at.X-l.edge(), at.Y-1-1 // the status line, the head
	switch {
	case m.focus == onHelp || m.focus == onDetails && l.detail == 0 || at.Y == 0:
	case m.events != nil && at.Y > l.body:
		m.focus = onEvents
	case l.detail > 0 && at.X >= l.tree:
		m.open(onDetails)
	case m.timeline != nil:
		m.timeline.At(y - 1)
	case y == -1:
		if by, ok := m.columnSet().At(x - (l.inner() - m.columnSet().Width())); ok {
			o, _ := m.view.Order()
			m.sort(picture.Order{By: by, Reverse: o.By == by && !o.Reverse})
		}
	default:
		m.focus = onTree
		m.clickRow(x, y)
	}
}

func (m *model) clickRow(x, y int) {
	rows := m.view.Window()
	if y < 0 || y >= len(rows) {
		return
	}
	r := rows[y]
	switch again := r == m.view.Selected(); {
	case m.view.Mode() == picture.Tree && m.view.Child(r) != nil && m.foldAt(r, x):
		m.view.Fold(r, !r.Folded())
	case again:
		m.open(onDetails)
	default:
		m.view.Select(r)
	}
}
