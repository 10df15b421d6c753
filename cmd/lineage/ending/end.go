package ending

import (
	"context"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type Ender struct {
	Options
	Sessions api.Selection
	Console  *cli.Console
	Client   api.Client
	UID      int    // the caller's
	Format   string // of plans and receipts
	at       string // the host, for messages; empty: this one
}

// End ends what the options and the selection say: sessions, or a process with its branch. On a
// terminal it asks first; elsewhere it fails unless no question is needed.
func (e *Ender) End(ctx context.Context) error {
	if e.Branch || e.Call != "" {
		return e.endBranch(ctx)
	}
	asked, words := e.Console.Now(), e.Sessions.Words
	// A single session that need not be shown is ended without any other request first:
	// in a fork storm each answer may take long.
	if e.Yes && !e.DryRun && e.Plan == "" && len(words) == 1 && e.Sessions.Plain() {
		return e.endAll(ctx, []*target{{word: words[0]}}, asked)
	}
	answered := e.sayIfSlow()
	targets, err := e.choose(ctx)
	answered()
	if err != nil {
		return err
	}
	switch {
	case len(targets) == 0:
		e.Console.Say("end: no session to end")
		return e.Console.Print(e.Format, text.Receipts([]text.Receipt{}, true))
	case e.DryRun:
		return e.dryRun(ctx, targets, false)
	case !e.Yes:
		if err := e.ask(ctx, targets, false); err != nil {
			return err
		}
		if targets, err = e.stillChosen(ctx, targets); err != nil {
			return err
		}
	}
	return e.endAll(ctx, targets, asked)
}

// stillChosen drops the sessions that are no longer selected since the question: those that work again, for example.
func (e *Ender) stillChosen(ctx context.Context, targets []*target) ([]*target, error) {
	if e.Sessions.Plain() {
		return targets, nil
	}
	now, err := e.selection().Find(ctx, e.Client)
	return slices.DeleteFunc(targets, func(t *target) bool {
		gone := err == nil && t.err == nil && !slices.Contains(now.IDs(), t.word)
		if gone {
			e.Console.Say("end: session %s is no longer selected, and was not ended", t.word)
		}
		return gone
	}), err
}

// endAll ends the targets, and reports. A session that cannot be ended does not stop the others from ending; the
// worst exit code counts.
func (e *Ender) endAll(ctx context.Context, targets []*target, asked time.Time) error {
	answered := e.sayIfSlow()
	e.begin(ctx, targets)
	for _, t := range targets {
		if t.err == nil && t.report.Ended != nil && t.report.Ended.Before(asked) {
			t.before = t.report.Ended
		}
	}
	answered()
	e.wait(ctx, targets)
	return e.report(targets)
}

// begin begins all ends before the first wait, so that their graces run in parallel.
func (e *Ender) begin(ctx context.Context, targets []*target) {
	for _, t := range targets {
		req := e.request()
		if t.plan != nil {
			req.PlanToken = t.plan.Token
		}
		if t.err == nil {
			t.report, t.err = e.Client.End(ctx, t.word, req)
		}
	}
}

// slow is how long the daemon may take before the caller gets a message.
const slow = 3 * time.Second

// sayIfSlow prints that the daemon has not answered, unless answered is called in time.
func (e *Ender) sayIfSlow() (answered func()) {
	t := time.AfterFunc(slow, func() { e.Console.Say("end: no answer from the daemon yet; still waiting, Ctrl-C gives up") })
	return func() { t.Stop() }
}

// report prints the receipts, prints errors on stderr, and returns the worst exit code
// as an error without text.
func (e *Ender) report(targets []*target) error {
	if receipts := receiptsOf(targets); len(receipts) > 0 {
		if err := e.Console.Print(e.Format, text.Receipts(receipts, len(targets) > 1)); err != nil {
			return err
		}
	}
	return e.Console.Failed(errorsOf(targets)...)
}

// receiptsOf are the receipts of targets. One that is not clean is an error of its target.
func receiptsOf(targets []*target) (receipts []text.Receipt) {
	for _, t := range targets {
		if t.report == nil {
			continue
		}
		t.report.Head = api.NewHead("report")
		receipts = append(receipts, text.Receipt{Report: t.report, Before: t.before})
		if t.err == nil && t.report.Verdict != api.VerdictClean {
			t.err = cli.Errorf(api.ExitLeft, "%s", text.Shortfall(t.report))
		}
	}
	return receipts
}

// Halt halts the host, and waits until the selected sessions are over. On a terminal it asks first. With
// all, sessions that start meanwhile end, too.
func (e *Ender) Halt(ctx context.Context, reason string) error {
	e.Now = true
	req := api.HaltRequest{Mode: api.ModeHalt, Reason: reason, All: e.Sessions.All}
	if e.DryRun || !e.Yes || !req.All {
		found, err := e.selection().Resolve(ctx, e.Client)
		if err != nil {
			return err
		}
		targets := make([]*target, len(found.Choices))
		for i, c := range found.Choices {
			targets[i] = &target{word: c.Session.ID, session: c.Session}
		}
		switch {
		case e.DryRun:
			return e.dryRun(ctx, targets, true)
		case len(targets) == 0 && !req.All:
			return cli.Errorf(api.ExitNotFound, "halt: no session is selected, nothing was changed")
		case !e.Yes:
			if err := e.ask(ctx, targets, true); err != nil {
				return err
			}
		}
		if !req.All {
			req.Sessions = found.IDs()
		}
	}
	done, err := e.Client.Halt(ctx, req)
	if err != nil {
		return err
	}
	e.Console.Say("%s", display.HaltLine(done.Halt))
	var targets []*target
	for _, s := range done.Items {
		t := &target{word: s.ID}
		if s.Refused != "" {
			t.err = api.Errorf(api.CodeGuarded, "halt: session %s is not ended: %s", s.ID, s.Refused)
		} else {
			t.report, t.err = e.Client.Report(ctx, s.ID, 0)
			t.err = begun(t.err)
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		return e.Console.Print(e.Format, text.Receipts([]text.Receipt{}, true))
	}
	e.wait(ctx, targets)
	return e.report(targets)
}
