package tui

import (
	"cmp"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/dialog"
	"github.com/lineage-ebpf/lineage/tui/events"
	"github.com/lineage-ebpf/lineage/tui/label"
	"github.com/lineage-ebpf/lineage/tui/picture"
	"github.com/lineage-ebpf/lineage/tui/timeline"
)

// act handles keys while the tree has the focus.
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
		return m.prompted(searchPrompt, "")
	case key.Matches(msg, k.Filter):
		return m.prompted(filterPrompt, v.Picture.Filter().String())
	case key.Matches(msg, k.Columns):
		return m.prompted(columnsPrompt, m.columnsText())
	case key.Matches(msg, k.PID):
		return m.prompted(pidPrompt, msg.String())
	case key.Matches(msg, k.Next):
		m.find(false)
	case key.Matches(msg, k.Prev):
		m.find(true)
	case key.Matches(msg, k.Help):
		m.open(onHelp)
	case key.Matches(msg, k.Pause):
		m.held.turn(v)
	case key.Matches(msg, k.Escape):
		m.escape()
	case v.Selected() == nil:
		m.complain("nothing is selected")
	default:
		return m.onRow(msg, v.Selected())
	}
	return nil
}

// onRow handles keys for a row, or for all rows.
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
		m.mark(r)
		v.Move(1)
	case key.Matches(msg, k.MarkAll):
		v.Picture.Mark(r, true, true)
	case key.Matches(msg, k.Unmark):
		v.Picture.Unmark()
	case key.Matches(msg, k.Copy):
		return m.copy(r)
	case key.Matches(msg, k.Root):
		v.SetRoot(r)
	case key.Matches(msg, k.Back):
		if root := v.Root(); root != nil {
			v.SetRoot(root.Up())
		}
	case key.Matches(msg, k.FollowRow):
		m.followRow(picture.FollowRow)
	case key.Matches(msg, k.FollowNewest):
		m.followRow(picture.FollowNewest)
	case key.Matches(msg, k.Tree.Timeline):
		m.openTimeline(r)
	case key.Matches(msg, k.Events):
		return m.openEvents(r)
	case key.Matches(msg, k.Pane):
		m.nextPane()
	case key.Matches(msg, k.EndSession):
		return m.askEnd(r)
	case key.Matches(msg, k.Kill):
		m.askKill(r)
	default:
		m.layOut(msg)
	}
	return nil
}

// layOut handles keys that arrange the rows.
func (m *model) layOut(msg tea.KeyPressMsg) {
	k, v := m.keys, m.view
	o, locked := v.Order()
	set := m.columnSet()
	switch {
	case key.Matches(msg, k.Flat):
		m.mode(picture.Flat)
	case key.Matches(msg, k.Orphans):
		m.mode(picture.Orphans)
	case key.Matches(msg, k.FoldAll):
		m.mode(picture.Tree)
		v.FoldSessions()
	case key.Matches(msg, k.Exited):
		v.HideExited(!v.HidesExited())
		m.say("exited processes are %s", map[bool]string{true: "hidden, but creators of live ones", false: "shown"}[v.HidesExited()])
	case key.Matches(msg, k.Sort):
		m.sort(set.Next(o, false))
	case key.Matches(msg, k.SortBack):
		m.sort(set.Next(o, true))
	case key.Matches(msg, k.SortCPU):
		m.sort(picture.Order{By: picture.ByCPU})
	case key.Matches(msg, k.SortRSS):
		m.sort(picture.Order{By: picture.ByRSS})
	case key.Matches(msg, k.Reverse):
		m.sort(picture.Order{By: o.By, Reverse: !o.Reverse})
	case key.Matches(msg, k.Lock):
		if v.Mode() != picture.Flat {
			m.complain("S locks the order of the flat list; t shows it")
			return
		}
		v.Lock(!locked)
	}
}

func (m *model) sort(o picture.Order) {
	m.view.SetOrder(o)
	if m.view.Mode() == picture.Tree {
		m.say("sessions by %s; processes keep the order of their start, t lists them", o.By)
	}
}

func (m *model) left(r *picture.Row) {
	switch {
	case m.view.Mode() != picture.Tree:
	case m.view.Child(r) != nil && !r.Folded():
		m.view.Fold(r, true)
	case r.Up() != nil:
		m.view.Select(r.Up())
	}
}

func (m *model) right(r *picture.Row) {
	switch {
	case m.view.Mode() != picture.Tree || m.view.Child(r) == nil:
	case r.Folded():
		m.view.Fold(r, false)
	default:
		m.view.Move(1)
	}
}

func (m *model) mark(r *picture.Row) {
	if r.OfSessions() {
		m.complain("these sessions have ended")
		return
	}
	on := !r.Marked
	if r.Kind == picture.GroupRow {
		on = !r.First().Marked
	}
	m.view.Picture.Mark(r, false, on)
}

// copy puts the exact name of the row into the terminal's clipboard.
func (m *model) copy(r *picture.Row) tea.Cmd {
	text := r.SessionID()
	if r.Kind == picture.ProcessRow {
		text = r.Process.Ref.String()
	}
	m.say("copied %s", label.Session(&api.Session{ID: text}))
	return tea.SetClipboard(text)
}

func (m *model) followRow(f picture.Follow) {
	if m.view.Following() == f {
		f = picture.FollowNothing
	}
	m.view.SetFollow(f)
}

// mode switches the layout of the rows, or back to the tree.
func (m *model) mode(to picture.Mode) {
	if m.view.Mode() == to {
		to = picture.Tree
	}
	if m.view.Mode() != to {
		m.view.SetMode(to)
	}
}

// openTimeline shows when the processes of the row's session were alive.
func (m *model) openTimeline(r *picture.Row) {
	if id := r.SessionID(); id != "" && !r.OfSessions() {
		m.timeline = timeline.New(id)
		m.timeline.Update(m.view.Picture, m.present(), m.labels().Born)
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
	switch {
	case m.opts.Source != "":
		m.complain("a recording is played as the tree; lineage events shows its lines")
	case m.link.client == nil || session == "":
	default:
		m.events, cmd = events.Open(m.ctx, m.link.client, session, m.opts.Now())
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
	case m.view.Mode() != picture.Tree:
		m.view.SetMode(picture.Tree)
	case m.view.Root() != nil:
		m.view.SetRoot(nil)
	}
}

// readOnly reports whether nothing can be ended from here.
func (m *model) readOnly() bool {
	return m.opts.ReadOnly || m.opts.Source != "" || m.link.status.ReadOnly
}

// refuse says why nothing can be ended from here, if so.
func (m *model) refuse() bool {
	switch {
	case m.opts.ReadOnly:
		m.complain("read-only: started with --read-only")
	case m.opts.Source != "":
		m.complain("read-only: this is a recording")
	case m.link.status.ReadOnly:
		m.complain("read-only: from inside a session nothing is ended; run it from outside")
	case m.link.client == nil:
		m.complain("no daemon yet")
	default:
		return false
	}
	return true
}

// meant are the marked rows, else the row.
func (m *model) meant(r *picture.Row) []*picture.Row {
	if marked := m.view.Picture.Marked(); len(marked) > 0 {
		return marked
	}
	return []*picture.Row{r}
}

func (m *model) dialogOptions() dialog.Options {
	return dialog.Options{Context: m.ctx, Client: m.link.client, Now: m.opts.Now, Keys: m.keys.Dialog}
}

// askEnd opens the dialog that ends the session of r, or those of the marked rows.
func (m *model) askEnd(r *picture.Row) (cmd tea.Cmd) {
	if m.refuse() {
		return nil
	}
	seen := map[string]bool{"": true}
	var targets []*dialog.Target
	for _, r := range m.meant(r) {
		id := r.SessionID()
		if seen[id] || r.OfSessions() {
			continue
		}
		seen[id] = true
		t := &dialog.Target{Session: id, Name: id}
		if s := m.view.Picture.Session(id); s != nil {
			t.Name = label.Session(s.Session)
			t.Grace = time.Duration(s.Session.GraceSeconds * float64(time.Second))
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		m.complain("the row belongs to no live session")
		return nil
	}
	m.message = message{}
	m.dialog, cmd = dialog.End(m.dialogOptions(), targets)
	return cmd
}

// askKill opens the dialog that kills the process of r, or the marked ones.
func (m *model) askKill(r *picture.Row) {
	if m.refuse() {
		return
	}
	var targets []*dialog.Target
	dead := ""
	for _, r := range m.meant(r) {
		if r.Kind != picture.ProcessRow {
			m.complain("X works on processes; x ends the session")
			return
		}
		p := *r.Process
		dead = cmp.Or(dead, label.Process(&p))
		if p.State == api.StateLive {
			targets = append(targets, &dialog.Target{Process: p, Session: p.Session, Name: label.Process(&p)})
		}
	}
	if len(targets) == 0 {
		m.complain("%s has exited already", dead)
		return
	}
	m.message = message{}
	m.dialog = dialog.Kill(m.dialogOptions(), targets)
}

// answered handles an answer for a dialog.
func (m *model) answered(msg dialog.Msg) tea.Cmd {
	cmd, result := dialog.Update(msg)
	if result != nil {
		m.message = message{result.Text, !result.OK}
		m.view.Picture.Unmark()
	}
	return cmd
}
