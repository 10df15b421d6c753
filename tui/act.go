package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/tui/picture"
)

// act is keys while the tree has them.
func (m *model) act(msg tea.KeyPressMsg) tea.Cmd {
	k, v := m.keys, m.view
	switch {
	case key.Matches(msg, k.Up):
		v.Move(-1)
	case key.Matches(msg, k.Down):
		v.Move(1)
	case key.Matches(msg, k.PageUp):
		v.Page(false)
	case key.Matches(msg, k.PageDown):
		v.Page(true)
	case key.Matches(msg, k.Home):
		v.Home()
	case key.Matches(msg, k.End):
		v.End()
	case key.Matches(msg, k.Search):
		return m.ask(promptSearch, "")
	case key.Matches(msg, k.Filter):
		return m.ask(promptFilter, v.Picture.Filter().String())
	case key.Matches(msg, k.PID):
		return m.ask(promptPID, msg.String())
	case key.Matches(msg, k.Next):
		m.find(false)
	case key.Matches(msg, k.Prev):
		m.find(true)
	case key.Matches(msg, k.Help):
		m.open(onHelp)
	case key.Matches(msg, k.Pause):
		m.pause()
	case key.Matches(msg, k.Escape):
		m.escape()
	case v.Selected() == nil:
		m.complain("there is no row to do that with")
	default:
		return m.onRow(msg, v.Selected())
	}
	return nil
}

// onRow is keys that are about a row.
func (m *model) onRow(msg tea.KeyPressMsg, r *picture.Row) tea.Cmd {
	k, v := m.keys, m.view
	switch {
	case key.Matches(msg, k.Left):
		m.left(r)
	case key.Matches(msg, k.Right):
		m.right(r)
	case key.Matches(msg, k.Details):
		m.open(onDetails)
	case key.Matches(msg, k.Mark):
		m.mark(r, false)
		v.Move(1)
	case key.Matches(msg, k.MarkAll):
		m.mark(r, true)
	case key.Matches(msg, k.Unmark):
		v.Picture.Unmark()
	case key.Matches(msg, k.Root):
		v.SetRoot(r)
	case key.Matches(msg, k.Back):
		if root := v.Root(); root != nil {
			v.SetRoot(root.Up())
		}
	case key.Matches(msg, k.FollowRow):
		m.follow(picture.FollowRow)
	case key.Matches(msg, k.FollowNewest):
		m.follow(picture.FollowNewest)
	case key.Matches(msg, k.Flat):
		m.mode(picture.Flat)
	case key.Matches(msg, k.Orphans):
		m.mode(picture.Orphans)
	case key.Matches(msg, k.Sort):
		m.sort()
	case key.Matches(msg, k.Lock):
		m.lock()
	case key.Matches(msg, k.Timeline):
		m.timeline(r)
	case key.Matches(msg, k.EndSession):
		return m.askEnd(r)
	case key.Matches(msg, k.Kill):
		return m.askKill(r)
	}
	return nil
}

func (m *model) left(r *picture.Row) {
	if m.view.Mode() == picture.Tree && r.First() != nil && !r.Folded() {
		m.view.Fold(r, true)
	} else if up := r.Up(); up != nil && m.view.Mode() == picture.Tree {
		m.view.Select(up)
	}
}

func (m *model) right(r *picture.Row) {
	switch {
	case m.view.Mode() != picture.Tree || r.First() == nil:
	case r.Folded():
		m.view.Fold(r, false)
	default:
		m.view.Move(1)
	}
}

func (m *model) mark(r *picture.Row, all bool) {
	if !all && r.Kind != picture.ProcessRow {
		m.complain("only processes are marked; c marks all that are below")
		return
	}
	m.view.Picture.Mark(r, all, all || !r.Marked)
}

func (m *model) follow(f picture.Follow) {
	if m.view.Following() == f {
		f = picture.FollowNothing
	}
	m.view.SetFollow(f)
}

func (m *model) mode(to picture.Mode) {
	if m.view.Mode() == to {
		to = picture.Tree
	}
	m.leaveTimeline()
	m.view.SetMode(to)
}

func (m *model) sort() {
	if m.view.Mode() != picture.Flat {
		m.complain("the tree keeps its order; t lists the processes, s sorts the list")
		return
	}
	m.view.NextSort()
}

func (m *model) lock() {
	if m.view.Mode() != picture.Flat {
		m.complain("the tree keeps its order; t lists the processes, S locks the list's order")
		return
	}
	_, locked := m.view.Sort()
	m.view.Lock(!locked)
}

// timeline shows the life of the processes of the row's session.
func (m *model) timeline(r *picture.Row) {
	if m.lanes {
		m.leaveTimeline()
		return
	}
	s := m.view.Picture.Session(r.SessionID())
	if s == nil {
		return
	}
	m.before = m.view.Root()
	m.lanes = true
	m.view.SetMode(picture.Tree)
	m.view.SetRoot(s)
}

func (m *model) leaveTimeline() {
	if !m.lanes {
		return
	}
	m.lanes = false
	if m.before != nil && m.before.Gone() {
		m.before = nil
	}
	m.view.SetRoot(m.before)
	m.before = nil
}

// escape goes back by one.
func (m *model) escape() {
	switch {
	case m.lanes:
		m.leaveTimeline()
	case m.view.Picture.Filter() != nil:
		m.view.SetFilter(nil)
	case m.view.Mode() != picture.Tree:
		m.view.SetMode(picture.Tree)
	case m.view.Root() != nil:
		m.view.SetRoot(nil)
	}
}

func (m *model) find(back bool) {
	switch {
	case m.search == "":
		m.complain("nothing was searched for yet: /")
	case !m.view.Find(m.search, back):
		m.complain("%s: not found", m.shown(m.search))
	}
}
