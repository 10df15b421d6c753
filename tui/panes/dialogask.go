package panes

import (
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
)

// DialogMsg handles an answer to a dialog's request, even after the dialog was closed. The
// result is nil while more answers are expected.
type DialogMsg func() (cmd tea.Cmd, result *DialogResult)

// ask requests something about t. take gets the answer when the view handles the message.
func ask[T any](t *DialogTarget, request func() (T, error), take func(T) (tea.Cmd, *DialogResult)) tea.Cmd {
	return func() tea.Msg {
		doc, err := request()
		return DialogMsg(func() (tea.Cmd, *DialogResult) {
			t.err = err
			return take(doc)
		})
	}
}

func (d *Dialog) askPlan(t *DialogTarget) tea.Cmd {
	return ask(t, func() (*api.Plan, error) { return d.Client.Plan(d.Context, t.Session) }, func(p *api.Plan) (tea.Cmd, *DialogResult) {
		t.plan = p
		d.planned()
		return nil, nil
	})
}

func (d *Dialog) sendEnd(t *DialogTarget, now bool) tea.Cmd {
	return ask(t, func() (*api.Report, error) {
		return d.Client.End(d.Context, t.Session, api.EndRequest{Now: now, PlanToken: t.plan.Token})
	}, d.reported(t))
}

// reported takes a report, and asks for the next one until the end is over.
func (d *Dialog) reported(t *DialogTarget) func(*api.Report) (tea.Cmd, *DialogResult) {
	return func(r *api.Report) (tea.Cmd, *DialogResult) {
		if t.report = r; !t.over() {
			return ask(t, func() (*api.Report, error) { return d.Client.Report(d.Context, t.Session, reportWait) }, d.reported(t)), nil
		}
		return nil, d.result()
	}
}

func (d *Dialog) sendKill(t *DialogTarget, signal string) tea.Cmd {
	return ask(t, func() (*api.Killed, error) {
		return d.Client.Kill(d.Context, t.Process.Ref.String(), api.KillRequest{Signal: signal})
	},
		func(k *api.Killed) (tea.Cmd, *DialogResult) {
			t.killed = k
			return nil, d.result()
		})
}

// DialogResult is the outcome when everything is over.
type DialogResult struct {
	Text string
	OK   bool // it went as requested
}

// planned shows what would die, and ignores keys until it can be read.
func (d *Dialog) planned() {
	if d.stage != Asking {
		return
	}
	d.hears = d.Now().Add(deaf)
	if len(d.targets) == 1 && d.targets[0].err != nil {
		d.stage = Done
	}
}

// result is the outcome of all targets, nil while one of them is not over.
func (d *Dialog) result() *DialogResult {
	r := &DialogResult{OK: true}
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
	d.hears = d.Now().Add(deaf)
	return r
}
