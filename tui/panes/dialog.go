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

type Client interface {
	Plan(ctx context.Context, s string) (*api.Plan, error)
	End(ctx context.Context, s string, req api.EndRequest) (*api.Report, error)
	Report(ctx context.Context, s string, wait time.Duration) (*api.Report, error)
	Kill(ctx context.Context, ref string, req api.KillRequest) (*api.Killed, error)
	Events(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error
}

type Stage uint8

// The stages.
const (
	Asking  Stage = iota // which action?
	Sending              // the action is sent
	Done                 // the result is shown
)

// Dialog asks about a session or a process, and shows the result.
type Dialog struct {
	DialogOptions
	choices []string
	choice  int
	stage   Stage
	hears   time.Time // ignores keys before this time
	offset  int       // lines scrolled
	page    int       // lines that a page key scrolls

	// What it lists, as drawn last, nil after an answer: a session of 10,000 processes is not
	// rewritten for each frame.
	list []string
	wide int // columns of list

	plan   *api.Plan
	report *api.Report
	killed *api.Killed
	err    error
}

type DialogOptions struct {
	Context context.Context
	Client  Client
	Now     func() time.Time
	Keys    ink.DialogKeys

	Name    string // of the session or the process, in the dialog
	Session string
	Grace   time.Duration
	Process *api.Process // that is killed; nil: the session is ended
}

// OpenDialog opens the dialog. Before an end it requests the plan.
func OpenDialog(o DialogOptions) (*Dialog, tea.Cmd) {
	d := &Dialog{DialogOptions: o, hears: o.Now().Add(deaf), page: 1}
	if d.kills() {
		d.choices = []string{"Cancel", "SIGTERM", "SIGKILL"}
		return d, nil
	}
	d.choices = []string{"Cancel", "End", "End now"}
	return d, d.askPlan()
}

// kills reports whether it is about a process, not its session.
func (d *Dialog) kills() bool { return d.Process != nil }

func (d *Dialog) Stage() Stage { return d.stage }

func (d *Dialog) over() bool {
	return d.err != nil || d.killed != nil || d.report != nil && d.report.Verdict != ""
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
	rows := append(ink.Moves(func(lines int) { d.offset += lines }, d.page, k.Up, k.Down, k.PageUp, k.PageDown),
		ink.OnKey(k.Cancel, func() { *closed = true }))
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
	switch p := d.plan; {
	case d.kills():
		return ""
	case p == nil:
		return "the list of what would die has not come"
	case p.RefusedBy != "" || len(p.Processes) == 0:
		return "there is nothing that could be ended"
	}
	return ""
}

func (d *Dialog) confirm() tea.Cmd {
	if d.choice == 0 || d.blocked() != "" {
		return nil
	}
	d.stage, d.offset = Sending, 0
	if d.kills() {
		return d.sendKill([]string{"", "TERM", "KILL"}[d.choice])
	}
	return d.sendEnd(d.choice == 2)
}
