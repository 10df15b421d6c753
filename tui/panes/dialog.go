package panes

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

// deaf is how long a dialog ignores keys after it has opened, and after its list
// appears: earlier keys were not meant for the dialog.
const deaf = 300 * time.Millisecond

// reportWait is how long the daemon may wait before it answers about an end.
const reportWait = 10 * time.Second

// Client is what the panes need from a daemon.
type Client interface {
	Plan(ctx context.Context, s string) (*api.Plan, error)
	End(ctx context.Context, s string, req api.EndRequest) (*api.Report, error)
	Report(ctx context.Context, s string, wait time.Duration) (*api.Report, error)
	Kill(ctx context.Context, ref string, req api.KillRequest) (*api.Killed, error)
	Events(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error
}

// Stage is the progress of a dialog.
type Stage uint8

// The stages.
const (
	Asking  Stage = iota // which action?
	Sending              // the action is sent
	Done                 // the result is shown
)

// Dialog asks, and shows the result.
type Dialog struct {
	DialogOptions
	kill    bool // processes, not their sessions
	targets []*DialogTarget
	choices []string
	choice  int
	stage   Stage
	hears   time.Time // ignores keys before this time
	offset  int       // lines scrolled
	page    int       // lines that a page key scrolls
	list    []string  // its list as drawn last
	drawn   drawn     // what list was made from
}

// drawn is what a dialog's list depends on. A session of 10,000 processes is not
// rewritten for each frame.
type drawn struct {
	columns  int
	stage    Stage
	answered int
}

// DialogTarget is one session or process that a dialog is about.
type DialogTarget struct {
	Session string
	Name    string // its name in the dialog
	Process api.Process
	Grace   time.Duration

	plan   *api.Plan
	report *api.Report
	killed *api.Killed
	err    error
}

// DialogOptions are what a dialog needs.
type DialogOptions struct {
	Context context.Context
	Client  Client
	Now     func() time.Time
	Keys    ink.DialogKeys
}

// EndDialog opens the dialog that ends sessions, and requests the plans.
func EndDialog(o DialogOptions, targets []*DialogTarget) (*Dialog, tea.Cmd) {
	d := open(o, targets, "Cancel", "End", "End now")
	var cmds []tea.Cmd
	for _, t := range targets {
		cmds = append(cmds, d.askPlan(t))
	}
	return d, tea.Batch(cmds...)
}

// KillDialog opens the dialog that kills processes.
func KillDialog(o DialogOptions, targets []*DialogTarget) *Dialog {
	d := open(o, targets, "Cancel", "SIGTERM", "SIGKILL")
	d.kill = true
	return d
}

func open(o DialogOptions, targets []*DialogTarget, choices ...string) *Dialog {
	return &Dialog{DialogOptions: o, targets: targets, choices: choices, hears: o.Now().Add(deaf), page: 1}
}

// Stage is the progress of the dialog.
func (d *Dialog) Stage() Stage { return d.stage }

// over reports whether all answers about the target have arrived.
func (t *DialogTarget) over() bool {
	return t.err != nil || t.killed != nil || t.report != nil && t.report.Verdict != ""
}

// answers counts the answers about the targets so far.
func (d *Dialog) answers() (n int) {
	for _, t := range d.targets {
		for _, heard := range []bool{t.err != nil, t.plan != nil, t.report != nil, t.over()} {
			if heard {
				n++
			}
		}
	}
	return n
}

// Press handles a key. closed: the dialog is closed.
func (d *Dialog) Press(msg tea.KeyPressMsg) (cmd tea.Cmd, closed bool) {
	if d.Now().Before(d.hears) {
		return nil, false
	}
	cmd, _, _ = ink.Press(msg, d.rows(&closed))
	return cmd, closed
}

// rows are the keys of the dialog; closed is set by those that close it.
func (d *Dialog) rows(closed *bool) []ink.KeyRow {
	k := d.Keys
	rows := append(ink.Moves(func(lines int) { d.offset += lines }, d.page, k.Up, k.Down, k.PageUp, k.PageDown), ink.OnKey(k.Cancel, func() { *closed = true }))
	switch d.stage {
	case Done:
		rows = append(rows, ink.OnKey(k.Confirm, func() { *closed = true }))
	case Asking:
		rows = append(rows,
			ink.OnKey(k.Prev, func() { d.choice = max(d.choice-1, 0) }),
			ink.OnKey(k.Next, func() { d.choice = min(d.choice+1, len(d.choices)-1) }),
			ink.StartKey(k.Confirm, func() tea.Cmd { *closed = d.choice == 0; return d.confirm() }))
	}
	return rows
}

// blocked says why there is nothing to confirm yet, "" if there is.
func (d *Dialog) blocked() string {
	ready := 0
	for _, t := range d.targets {
		switch {
		case d.kill:
			ready++
		case t.err != nil:
		case t.plan == nil:
			return "the list of what would die has not come"
		case t.ready():
			ready++
		}
	}
	if ready == 0 {
		return "there is nothing that could be ended"
	}
	return ""
}

// ready reports whether the target's end would end something.
func (t *DialogTarget) ready() bool {
	return t.err == nil && t.plan != nil && t.plan.RefusedBy == "" && len(t.plan.Processes) > 0
}

func (d *Dialog) confirm() tea.Cmd {
	if d.choice == 0 || d.blocked() != "" {
		return nil
	}
	d.stage, d.offset = Sending, 0
	var cmds []tea.Cmd
	for _, t := range d.targets {
		switch {
		case d.kill:
			cmds = append(cmds, d.sendKill(t, []string{"", "TERM", "KILL"}[d.choice]))
		case t.ready():
			cmds = append(cmds, d.sendEnd(t, d.choice == 2))
		}
	}
	return tea.Batch(cmds...)
}
