package tui

import (
	"cmp"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

func (m *model) sort(o picture.Order) {
	m.view.SetOrder(o)
	m.say("sessions sorted by %s", panes.ColumnTitle(o.By))
}

// mark marks the row, or takes its mark away, and goes to the next.
func (m *model) mark(r *picture.Row) {
	m.view.ToggleMark(r)
	m.view.Move(1)
}

func (m *model) toggleExited() {
	v := m.view
	v.HideExited(!v.HidesExited())
	m.say("exited processes are %s", map[bool]string{true: "hidden, but creators of live ones",
		false: "shown"}[v.HidesExited()])
}

// copy puts the exact name of the row into the terminal's clipboard.
func (m *model) copy(r *picture.Row) tea.Cmd {
	text := r.SessionID()
	if r.Kind == picture.ProcessRow {
		text = r.Process.Ref.String()
	}
	m.say("copied %s", panes.SessionLabel(&api.Session{ID: text}))
	return tea.SetClipboard(text)
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

// nextPane moves the focus to the next pane.
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

// escape goes back by one.
func (m *model) escape() {
	m.search = search{}
	switch {
	case m.events != nil:
		m.closeEvents()
	case m.view.Picture.Filter() != nil:
		m.view.SetFilter(nil)
	case m.view.Root() != nil:
		m.view.SetRoot(nil)
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

// meant are the marked rows, else the row.
func (m *model) meant(r *picture.Row) []*picture.Row {
	if marked := m.view.Picture.Marked(); len(marked) > 0 {
		return marked
	}
	return []*picture.Row{r}
}

func (m *model) dialogOptions() panes.DialogOptions {
	return panes.DialogOptions{Context: m.ctx, Client: m.link.client, Now: m.opts.Now, Keys: m.keys.Dialog}
}

// askEnd opens the dialog that ends the session of r, or those of the marked rows.
func (m *model) askEnd(r *picture.Row) (cmd tea.Cmd) {
	seen := map[string]bool{"": true}
	var targets []*panes.DialogTarget
	for _, r := range m.meant(r) {
		id := r.SessionID()
		if seen[id] {
			continue
		}
		seen[id] = true
		t := &panes.DialogTarget{Session: id, Name: id}
		if s := m.view.Picture.Session(id); s != nil {
			t.Name = panes.SessionLabel(s.Session)
			t.Grace = time.Duration(s.Session.GraceSeconds * float64(time.Second))
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		m.complain("the row belongs to no session")
		return nil
	}
	m.dialog, cmd = panes.EndDialog(m.dialogOptions(), targets)
	return cmd
}

// askKill opens the dialog that kills the process of r, or the marked ones.
func (m *model) askKill(r *picture.Row) {
	var targets []*panes.DialogTarget
	dead := ""
	for _, r := range m.meant(r) {
		if r.Kind != picture.ProcessRow {
			m.complain("X works on processes; x ends the session")
			return
		}
		p := *r.Process
		dead = cmp.Or(dead, panes.ProcessLabel(&p))
		if p.State == api.StateLive {
			targets = append(targets, &panes.DialogTarget{Process: p, Session: p.Session, Name: panes.ProcessLabel(&p)})
		}
	}
	if len(targets) == 0 {
		m.complain("%s has exited already", dead)
		return
	}
	m.dialog = panes.KillDialog(m.dialogOptions(), targets)
}

// answered handles an answer for a dialog.
func (m *model) answered(msg panes.DialogMsg) tea.Cmd {
	cmd, result := msg()
	if result != nil {
		m.message = message{result.Text, !result.OK}
		m.view.Picture.Unmark()
	}
	return cmd
}
