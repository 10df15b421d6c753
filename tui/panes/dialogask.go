package panes

import (
	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
)

// DialogMsg handles an answer to a dialog's request, even after the dialog was closed. The
// result is nil while more answers are expected.
type DialogMsg func() (cmd tea.Cmd, result *DialogResult)

// ask requests something. take gets the answer when the view handles the message.
func ask[T any](d *Dialog, request func() (T, error), take func(T) (tea.Cmd, *DialogResult)) tea.Cmd {
	return func() tea.Msg {
		doc, err := request()
		return DialogMsg(func() (tea.Cmd, *DialogResult) {
			d.err, d.list = err, nil
			return take(doc)
		})
	}
}

// askPlan requests what would die. Keys are ignored until it can be read.
func (d *Dialog) askPlan() tea.Cmd {
	return ask(d, func() (*api.Plan, error) { return d.Client.Plan(d.Context, d.Session) }, func(p *api.Plan) (tea.Cmd, *DialogResult) {
		d.plan, d.hears = p, d.Now().Add(deaf)
		if d.err != nil {
			d.stage = Done
		}
		return nil, nil
	})
}

func (d *Dialog) sendEnd(now bool) tea.Cmd {
	return ask(d, func() (*api.Report, error) {
		return d.Client.End(d.Context, d.Session, api.EndRequest{Now: now, PlanToken: d.plan.Token})
	}, d.reported)
}

// reported takes a report, and asks for the next one until the end is over.
func (d *Dialog) reported(r *api.Report) (tea.Cmd, *DialogResult) {
	if d.report = r; !d.over() {
		return ask(d, func() (*api.Report, error) { return d.Client.Report(d.Context, d.Session, reportWait) },
			d.reported), nil
	}
	return nil, d.result()
}

func (d *Dialog) sendKill(signal string) tea.Cmd {
	return ask(d, func() (*api.Killed, error) {
		return d.Client.Kill(d.Context, d.Process.Ref.String(), api.KillRequest{Signal: signal})
	}, func(k *api.Killed) (tea.Cmd, *DialogResult) {
		d.killed = k
		return nil, d.result()
	})
}

// DialogResult is the outcome when everything is over.
type DialogResult struct {
	Text string
	OK   bool // it went as requested
}

func (d *Dialog) result() *DialogResult {
	d.stage, d.hears = Done, d.Now().Add(deaf)
	text, ok := d.outcome()
	return &DialogResult{text, ok}
}
