package dialog

import (
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
)

// Msg handles an answer to a dialog's request, even after the dialog was closed. The
// result is nil while more answers are expected.
type Msg func() (cmd tea.Cmd, result *Result)

// ask requests something about t. take gets the answer when the view handles the message.
func ask[T any](t *Target, request func() (T, error), take func(T) (tea.Cmd, *Result)) tea.Cmd {
	return func() tea.Msg {
		doc, err := request()
		return Msg(func() (tea.Cmd, *Result) {
			t.err = err
			return take(doc)
		})
	}
}

func (d *Dialog) askPlan(t *Target) tea.Cmd {
	return ask(t, func() (*api.Plan, error) { return d.client.Plan(d.ctx, t.Session) }, func(p *api.Plan) (tea.Cmd, *Result) {
		t.plan = p
		d.planned()
		return nil, nil
	})
}

func (d *Dialog) sendEnd(t *Target, now bool) tea.Cmd {
	return ask(t, func() (*api.Report, error) { return d.client.End(d.ctx, t.Session, api.EndRequest{Now: now, PlanToken: t.plan.Token}) }, d.reported(t))
}

func (d *Dialog) askReport(t *Target) tea.Cmd {
	return ask(t, func() (*api.Report, error) { return d.client.Report(d.ctx, t.Session, reportWait) }, d.reported(t))
}

// reported takes a report, and asks for the next one until the end is over.
func (d *Dialog) reported(t *Target) func(*api.Report) (tea.Cmd, *Result) {
	return func(r *api.Report) (tea.Cmd, *Result) {
		if t.report = r; !t.over() {
			return d.askReport(t), nil
		}
		return nil, d.result()
	}
}

func (d *Dialog) sendKill(t *Target, signal string) tea.Cmd {
	return ask(t, func() (*api.Killed, error) {
		return d.client.Kill(d.ctx, t.Process.Ref.String(), api.KillRequest{Signal: signal})
	},
		func(k *api.Killed) (tea.Cmd, *Result) {
			t.killed = k
			return nil, d.result()
		})
}

// Result is the outcome when everything is over.
type Result struct {
	Text string
	OK   bool // it went as requested
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
