package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

func (m *model) sort(by picture.Sort) {
	m.view.SetOrder(by)
	m.say("sessions sorted by %s", panes.ColumnTitle(by))
}

func (m *model) toggleExited() {
	v := m.view
	v.HideExited(!v.HidesExited())
	m.say("exited processes are %s", map[bool]string{true: "hidden, but creators of live ones",
		false: "shown"}[v.HidesExited()])
}

// openTimeline shows when the processes of the row's session were alive.
func (m *model) openTimeline(r *picture.Row) {
	if id := r.SessionID(); id != "" {
		m.timeline = panes.NewTimeline(id)
		m.updateTimeline()
	}
}

// openEvents shows the events of the row's session below the tree, or hides them.
func (m *model) openEvents(r *picture.Row) tea.Cmd {
	if m.events != nil {
		m.closeEvents()
		return nil
	}
	return m.watchEvents(r.SessionID())
}

func (m *model) closeEvents() {
	m.events.Close()
	m.events = nil
	if m.focus == onEvents {
		m.focus = onTree
	}
}

func (m *model) watchEvents(session string) (cmd tea.Cmd) {
	if m.link.client != nil && session != "" {
		m.events, cmd = panes.OpenEvents(m.ctx, m.link.client, session, m.opts.Now())
	}
	return cmd
}

// follow makes the events pane show the session of the selected row.
func (m *model) follow() tea.Cmd {
	r := m.view.Selected()
	if m.events == nil || r == nil || r.SessionID() == m.events.Session || m.focus == onEvents {
		return nil
	}
	m.events.Close()
	return m.watchEvents(r.SessionID())
}

func (m *model) nextPane() {
	l := m.layout()
	switch {
	case m.focus == onTree && l.detail > 0:
		m.open(onDetails)
	case m.focus != onEvents && m.events != nil:
		m.focus = onEvents
	default:
		m.focus = onTree
	}
}

func (m *model) escape() {
	switch {
	case m.events != nil:
		m.closeEvents()
	case m.view.Picture.Filter() != nil:
		found := m.view.Selected()
		m.view.SetFilter(nil)
		m.view.Select(found)
	}
}

// readOnly says why nothing can be ended from here, "" if it can.
func (m *model) readOnly() string {
	switch {
	case m.opts.ReadOnly:
		return "read-only: started with --read-only"
	case m.link.status.ReadOnly:
		return "read-only: from inside a session nothing is ended; run it from outside"
	}
	return ""
}

// refusal says why nothing can be ended now.
func (m *model) refusal() string {
	why := m.readOnly()
	if why == "" && m.link.client == nil {
		why = "no daemon yet"
	}
	return why
}

func (m *model) dialogOptions(session, name string) panes.DialogOptions {
	return panes.DialogOptions{Context: m.ctx, Client: m.link.client, Now: m.opts.Now,
		Keys: m.keys.Dialog, Session: session, Name: name}
}

func (m *model) askEnd(r *picture.Row) (cmd tea.Cmd) {
	id := r.SessionID()
	if id == "" {
		m.complain("the row belongs to no session")
		return nil
	}
	o := m.dialogOptions(id, id)
	if s := m.view.Picture.Session(id); s != nil {
		o.Name = panes.SessionLabel(s.Session)
		o.Grace = time.Duration(s.Session.GraceSeconds * float64(time.Second))
	}
	m.dialog, cmd = panes.OpenDialog(o)
	return cmd
}

func (m *model) askKill(r *picture.Row) {
	switch p := r.Process; {
	case p == nil:
		m.complain("X works on processes; x ends the session")
	case p.State != api.StateLive:
		m.complain("%s has exited already", panes.ProcessLabel(p))
	default:
		o := m.dialogOptions(p.Session, panes.ProcessLabel(p))
		o.Process = new(*p)
		m.dialog, _ = panes.OpenDialog(o)
	}
}

func (m *model) answered(msg panes.DialogMsg) tea.Cmd {
	cmd, result := msg()
	if result != nil {
		m.message = message{result.Text, !result.OK}
	}
	return cmd
}
