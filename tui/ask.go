package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// How long questions wait.
const (
	whyEvery   = 5 * time.Second // ports and locks change
	reportWait = 10 * time.Second
)

type planMsg struct {
	d    *dialog
	t    *target
	plan *api.Plan
	err  error
}

type reportMsg struct {
	d      *dialog
	t      *target
	report *api.Report
	err    error
}

type killedMsg struct {
	d      *dialog
	t      *target
	killed *api.Killed
	err    error
}

// whyMsg is what the daemon knows of the process that the details show.
type whyMsg struct {
	ref api.Ref
	why *api.Why
	err error
}

func (m *model) askPlan(d *dialog, t *target) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		plan, err := c.Plan(ctx, t.session)
		return planMsg{d, t, plan, err}
	}
}

// planned shows what would die, and listens no sooner than it can be read.
func (m *model) planned(msg planMsg) {
	msg.t.plan, msg.t.err = msg.plan, msg.err
	if msg.d.stage != asking {
		return
	}
	msg.d.hears = m.now().Add(deaf)
	if msg.err != nil && len(msg.d.targets) == 1 {
		msg.d.stage = told
	}
}

func (m *model) sendEnd(d *dialog, t *target, now bool) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		r, err := c.End(ctx, t.session, api.EndRequest{Now: now})
		return reportMsg{d, t, r, err}
	}
}

// reported takes an end's receipt, and asks on while it is not over.
func (m *model) reported(msg reportMsg) tea.Cmd {
	t := msg.t
	t.report, t.err = msg.report, msg.err
	if !t.over() {
		ctx, c := m.ctx, m.client
		return func() tea.Msg {
			r, err := c.Report(ctx, t.session, reportWait)
			return reportMsg{msg.d, t, r, err}
		}
	}
	m.result(msg.d)
	return nil
}

func (m *model) sendKill(d *dialog, t *target, signal string) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		k, err := c.Kill(ctx, t.process.Ref.String(), api.KillRequest{Signal: signal})
		return killedMsg{d, t, k, err}
	}
}

func (m *model) killed(msg killedMsg) {
	msg.t.killed, msg.t.err = msg.killed, msg.err
	m.result(msg.d)
}

// result tells what came of a dialog when all of it is over.
func (m *model) result(d *dialog) {
	var bad bool
	line := ""
	for _, t := range d.targets {
		if d.stage == sending && !t.over() && (d.kill || t.plan != nil && len(t.plan.Processes) > 0 && t.plan.RefusedBy == "") {
			return
		}
		if line != "" {
			line += "; "
		}
		text, ok := t.outcome()
		line += text
		bad = bad || !ok
	}
	d.stage = told
	if d == m.dialog {
		d.hears = m.now().Add(deaf)
	}
	m.message, m.isBad = line, bad
	m.view.Picture.Unmark()
}

// why is what is known beyond the picture of the process of the details.
type why struct {
	ref   api.Ref
	at    time.Time
	asked bool // no answer yet
	why   *api.Why
	err   error
}

// askWhy asks for what the details need and the picture has not, when the
// selected row is another one or the answer is old. Only one question is open:
// who holds a key down over 1,000 rows asks for where he stops.
func (m *model) askWhy() tea.Cmd {
	r := m.view.Selected()
	if r == nil || r.Kind != picture.ProcessRow || !m.hasDetails() || m.away != nil || m.done {
		return nil
	}
	ref := r.Process.Ref
	if m.why.asked || m.why.ref == ref && m.now().Sub(m.why.at) < whyEvery {
		return nil
	}
	if m.why.ref != ref {
		m.why = why{ref: ref}
	}
	m.why.asked, m.why.at = true, m.now()
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		w, err := c.Why(ctx, ref.String())
		return whyMsg{ref, w, err}
	}
}

func (m *model) explained(msg whyMsg) {
	m.why.asked = false
	if msg.ref == m.why.ref {
		m.why.why, m.why.err = msg.why, msg.err
	}
}

// shown makes what came from somewhere else fit for the screen.
func (m *model) shown(s string) string { return display.Text(s) }
