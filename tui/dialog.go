package tui

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// deaf is how long a dialog takes no key after it has opened, and after what it
// lists has come: who was typing did not mean it.
const deaf = 300 * time.Millisecond

// dialogKeys are the keys of a dialog.
type dialogKeys struct {
	Prev, Next, Up, Down, PageUp, PageDown, Confirm, Cancel key.Binding
}

func newDialogKeys() dialogKeys {
	return dialogKeys{
		Prev:     bind("← h", "the choice before", "left", "h", "shift+tab"),
		Next:     bind("→ l Tab", "next choice", "right", "l", "tab"),
		Up:       bind("↑ k", "scroll up", "up", "k"),
		Down:     bind("↓ j", "scroll down", "down", "j"),
		PageUp:   bind("PgUp", "scroll a page up", "pgup"),
		PageDown: bind("PgDn", "scroll a page down", "pgdown"),
		Confirm:  bind("Enter", "do it (Cancel at first); close the result", "enter"),
		Cancel:   bind("Esc q n", "cancel; close the result", "esc", "q", "n"),
	}
}

func (k dialogKeys) all() []key.Binding {
	return []key.Binding{k.Prev, k.Next, k.Confirm, k.Cancel, k.Up, k.Down, k.PageUp, k.PageDown}
}

// stage is how far a dialog is.
type stage uint8

const (
	asking  stage = iota // what is to be done?
	sending              // it is being done
	told                 // this came of it
)

// dialog asks before something is ended. What it is about was frozen when it
// opened: a session by its id, a process by PID and start.
type dialog struct {
	keys    dialogKeys
	kill    bool // processes, not their sessions
	targets []*target
	choices []string
	choice  int
	stage   stage
	hears   time.Time // takes keys from then on
	offset  int       // lines scrolled
	list    []string  // what it lists, as it was drawn last
	drawn   drawn     // what that was made of
}

// drawn is what a dialog's list depends on. A session of 10,000 processes is not
// written anew for each frame.
type drawn struct {
	columns  int
	stage    stage
	answered int
}

// answers counts what has been heard of the targets.
func (d *dialog) answers() (n int) {
	for _, t := range d.targets {
		for _, heard := range []bool{t.err != nil, t.plan != nil, t.report != nil, t.over()} {
			if heard {
				n++
			}
		}
	}
	return n
}

// target is one session or process of a dialog.
type target struct {
	session string
	name    string // what it is called here
	process api.Process
	grace   time.Duration
	plan    *api.Plan
	report  *api.Report
	killed  *api.Killed
	err     error
}

// over tells that nothing more will be heard of it.
func (t *target) over() bool {
	return t.err != nil || t.killed != nil || t.report != nil && t.report.Verdict != ""
}

// readOnly tells that nothing can be ended from here.
func (m *model) readOnly() bool {
	return m.opts.ReadOnly || m.opts.Source != "" || m.status.ReadOnly
}

// refuse says why nothing can be ended from here, if so.
func (m *model) refuse() bool {
	switch {
	case m.opts.ReadOnly:
		m.complain("read-only: it was started with --read-only")
	case m.opts.Source != "":
		m.complain("read-only: this is a recording")
	case m.status.ReadOnly:
		m.complain("read-only: from inside a session nothing is ended; run it from outside")
	default:
		return false
	}
	return true
}

// askEnd opens the dialog that ends the session of r, or of the marked rows.
func (m *model) askEnd(r *picture.Row) tea.Cmd {
	if m.refuse() {
		return nil
	}
	rows := m.view.Picture.Marked()
	if len(rows) == 0 {
		rows = []*picture.Row{r}
	}
	d := &dialog{choices: []string{"Cancel", "End", "End now"}}
	seen := map[string]bool{}
	var cmds []tea.Cmd
	for _, r := range rows {
		id := r.SessionID()
		if seen[id] || id == "" {
			continue
		}
		seen[id] = true
		t := &target{session: id, name: id}
		if s := m.view.Picture.Session(id); s != nil {
			t.name = sessionName(s.Session)
			t.grace = time.Duration(s.Session.GraceSeconds * float64(time.Second))
		}
		d.targets = append(d.targets, t)
		cmds = append(cmds, m.askPlan(d, t))
	}
	if len(d.targets) == 0 {
		m.complain("the row is of no session")
		return nil
	}
	m.show(d)
	return tea.Batch(cmds...)
}

// askKill opens the dialog that kills the process of r, or the marked ones.
func (m *model) askKill(r *picture.Row) tea.Cmd {
	if m.refuse() {
		return nil
	}
	rows := m.view.Picture.Marked()
	if len(rows) == 0 {
		rows = []*picture.Row{r}
	}
	d := &dialog{kill: true, choices: []string{"Cancel", "SIGTERM", "SIGKILL"}}
	for _, r := range rows {
		if r.Kind != picture.ProcessRow {
			m.complain("X kills a process, and this is none; x ends the session")
			return nil
		}
		p := *r.Process
		if p.State == api.StateLive {
			d.targets = append(d.targets, &target{process: p, session: p.Session, name: processName(&p)})
		}
	}
	if len(d.targets) == 0 {
		m.complain("%s is dead already", display.Text(processName(r.Process)))
		return nil
	}
	m.show(d)
	return nil
}

func (m *model) show(d *dialog) {
	d.keys = newDialogKeys()
	d.hears = m.now().Add(deaf)
	m.dialog, m.message = d, ""
}

func (d *dialog) press(m *model, msg tea.KeyPressMsg) tea.Cmd {
	if m.now().Before(d.hears) {
		return nil
	}
	k := d.keys
	switch {
	case key.Matches(msg, k.Up):
		d.offset--
	case key.Matches(msg, k.Down):
		d.offset++
	case key.Matches(msg, k.PageUp):
		d.offset -= m.page()
	case key.Matches(msg, k.PageDown):
		d.offset += m.page()
	case key.Matches(msg, k.Cancel):
		m.dialog = nil
		if d.stage == sending {
			m.say("it goes on; its result will stand here")
		}
	case d.stage != asking:
		if key.Matches(msg, k.Confirm) && d.stage == told {
			m.dialog = nil
		}
	case key.Matches(msg, k.Prev):
		d.choice = max(d.choice-1, 0)
	case key.Matches(msg, k.Next):
		d.choice = min(d.choice+1, len(d.choices)-1)
	case key.Matches(msg, k.Confirm):
		return d.confirm(m)
	}
	return nil
}

// page is how many lines a dialog scrolls at once.
func (m *model) page() int { return max(m.height/2, 1) }

// blocked says why there is nothing to confirm yet, "" if there is.
func (d *dialog) blocked() string {
	ready := 0
	for _, t := range d.targets {
		switch {
		case d.kill:
			ready++
		case t.err != nil:
		case t.plan == nil:
			return "what would die is not known yet"
		case t.plan.RefusedBy == "" && len(t.plan.Processes) > 0:
			ready++
		}
	}
	if ready == 0 {
		return "there is nothing that could be ended"
	}
	return ""
}

func (d *dialog) confirm(m *model) tea.Cmd {
	if d.choice == 0 {
		m.dialog = nil
		return nil
	}
	if d.blocked() != "" {
		return nil
	}
	d.stage, d.offset = sending, 0
	var cmds []tea.Cmd
	for _, t := range d.targets {
		switch {
		case d.kill:
			cmds = append(cmds, m.sendKill(d, t, []string{"", "TERM", "KILL"}[d.choice]))
		case t.err == nil && t.plan.RefusedBy == "" && len(t.plan.Processes) > 0:
			cmds = append(cmds, m.sendEnd(d, t, d.choice == 2))
		}
	}
	return tea.Batch(cmds...)
}
