package dialog

import (
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
)

// Msg is an answer to a dialog's request, even after the dialog was closed.
type Msg interface{ dialog() *Dialog }

type answer struct {
	d   *Dialog
	t   *Target
	err error
}

func (a answer) dialog() *Dialog { return a.d }

type planMsg struct {
	answer
	plan *api.Plan
}

type reportMsg struct {
	answer
	report *api.Report
}

type killedMsg struct {
	answer
	killed *api.Killed
}

func (d *Dialog) askPlan(t *Target) tea.Cmd {
	return func() tea.Msg {
		plan, err := d.client.Plan(d.ctx, t.Session)
		return planMsg{answer{d, t, err}, plan}
	}
}

func (d *Dialog) sendEnd(t *Target, now bool) tea.Cmd {
	return func() tea.Msg {
		r, err := d.client.End(d.ctx, t.Session, api.EndRequest{Now: now})
		return reportMsg{answer{d, t, err}, r}
	}
}

func (d *Dialog) askReport(t *Target) tea.Cmd {
	return func() tea.Msg {
		r, err := d.client.Report(d.ctx, t.Session, reportWait)
		return reportMsg{answer{d, t, err}, r}
	}
}

func (d *Dialog) sendKill(t *Target, signal string) tea.Cmd {
	return func() tea.Msg {
		k, err := d.client.Kill(d.ctx, t.Process.Ref.String(), api.KillRequest{Signal: signal})
		return killedMsg{answer{d, t, err}, k}
	}
}

// Result is the outcome when everything is over.
type Result struct {
	Text string
	OK   bool // it went as requested
}

// Update handles an answer. The result is nil while more answers are expected.
func Update(msg Msg) (cmd tea.Cmd, result *Result) {
	d := msg.dialog()
	switch msg := msg.(type) {
	case planMsg:
		msg.t.plan, msg.t.err = msg.plan, msg.err
		d.planned()
	case reportMsg:
		msg.t.report, msg.t.err = msg.report, msg.err
		if !msg.t.over() {
			return d.askReport(msg.t), nil
		}
		return nil, d.result()
	case killedMsg:
		msg.t.killed, msg.t.err = msg.killed, msg.err
		return nil, d.result()
	}
	return nil, nil
}

// planned shows what would die, and ignores keys until it can be read.
func (d *Dialog) planned() {
	if d.stage != Asking {
		return
	}
	d.hears = d.now().Add(deaf)
	if len(d.targets) == 1 && d.targets[0].err != nil {
		d.stage = Done
	}
}

// result is the outcome of all targets, nil while one of them is not over.
func (d *Dialog) result() *Result {
	r := &Result{OK: true}
	for _, t := range d.targets {
		if d.stage == Sending && !t.over() && (d.kill || t.ready()) {
			return nil
		}
		if r.Text != "" {
			r.Text += "; "
		}
		text, ok := t.outcome()
		r.Text += text
		r.OK = r.OK && ok
	}
	d.stage = Done
	d.hears = d.now().Add(deaf)
	return r
}
