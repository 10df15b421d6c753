package ending

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Ender ends sessions of one daemon, and reports on the console.
type Ender struct {
	Options
	Console *console.Console
	Client  api.Client
	UID     int    // the caller's
	Format  string // of plans and receipts
}

// End ends what the options and words name: sessions, or a process with its branch. On a
// terminal it asks first; elsewhere it fails unless no question is needed.
func (e *Ender) End(ctx context.Context, words []string) (err error) {
	if e.chooses() {
		if words, err = e.choose(ctx, words); err != nil {
			return err
		}
		if len(words) == 0 {
			e.Console.Say("end: no session to end")
			return e.Console.Print(e.Format, text.Receipts([]text.Receipt{}, true))
		}
	}
	switch {
	case e.Branch:
		ref, err := memberRef(ctx, e.Client, words[0])
		if err != nil {
			return err
		}
		return e.endBranch(ctx, ref)
	case e.Call != "":
		return e.endCall(ctx, strings.Join(words, ""))
	case e.DryRun:
		return e.dryRun(ctx, words, false)
	case !e.Yes && !e.Console.CanAsk():
		for _, t := range resolve(ctx, e.Client, &e.Options, words) {
			if t.err != nil {
				return t.err // this error matters more
			}
		}
		return errCannotAsk
	}
	return e.endSessions(ctx, words)
}

// choose returns the sessions that --all, --mine, --idle or --left select; --left only those that
// words name, if there are any.
func (e *Ender) choose(ctx context.Context, words []string) ([]string, error) {
	list, err := e.Client.Sessions(ctx, "live", "")
	if err != nil {
		return nil, err
	}
	var ids, spared []string
	switch {
	case e.Idle > 0:
		idle, err := e.idle(ctx)
		if err != nil {
			return nil, err
		}
		ids, spared = chosen(list.Items, e.UID, e.UID == 0, Where{}, idle)
	case e.Left:
		only := map[string]bool{}
		for _, word := range words {
			s, err := e.Client.Session(ctx, word)
			if err != nil {
				return nil, err
			}
			only[s.ID] = true
		}
		ids, spared = leftBehind(list.Items, only)
	default:
		ids, spared = chosen(list.Items, e.UID, (e.All || e.Where.Given()) && e.UID == 0, e.Where, nil)
	}
	for _, why := range spared {
		e.Console.Say("end: %s", why)
	}
	return ids, nil
}

// idle has the sessions that are idle for the wanted time, as of a look that the daemon makes now.
func (e *Ender) idle(ctx context.Context) (map[string]bool, error) {
	list, err := e.Client.Sessions(ctx, "idle", "")
	if err != nil {
		return nil, err
	}
	idle := make(map[string]bool)
	for _, s := range list.Items {
		idle[s.ID] = s.IdleSeconds >= e.Idle.Seconds()
	}
	return idle, nil
}

// stillIdle drops the sessions that have begun to work while the question was open.
func (e *Ender) stillIdle(ctx context.Context, targets []*target) ([]*target, error) {
	idle, err := e.idle(ctx)
	return slices.DeleteFunc(targets, func(t *target) bool {
		busy := err == nil && t.err == nil && !idle[t.word]
		if busy {
			e.Console.Say("end: session %s is no longer idle, and was not ended", t.word)
		}
		return busy
	}), err
}

// target is one session to end.
type target struct {
	word    string       // by which the daemon finds it
	session *api.Session // nil: not requested yet
	report  *api.Report
	before  *time.Time // when it ended, if that was before our request
	err     error
}

// endSessions ends the sessions that words name. A session that cannot be ended does
// not stop the others from ending; the worst exit code counts.
func (e *Ender) endSessions(ctx context.Context, words []string) error {
	answered := e.sayIfSlow()
	asked := e.Console.Now()
	targets := []*target{{word: words[0]}}
	// A single session that need not be shown is ended without any other request first:
	// in a fork storm each answer may take long.
	if !e.Yes || len(words) > 1 || e.Plan != "" {
		targets = resolve(ctx, e.Client, &e.Options, words)
	}
	answered()
	if !e.Yes {
		goOn, err := e.ask(ctx, targets)
		if err != nil {
			return err
		}
		if !goOn {
			return errNotConfirmed
		}
		if e.Idle > 0 {
			if targets, err = e.stillIdle(ctx, targets); err != nil {
				return err
			}
		}
	}
	answered = e.sayIfSlow()
	// All ends begin before the first wait, so that their graces run in parallel.
	for _, t := range targets {
		if t.err == nil {
			t.report, t.err = e.Client.End(ctx, t.word, e.request())
		}
	}
	for _, t := range targets {
		if t.err == nil && t.report.Ended != nil && t.report.Ended.Before(asked) {
			t.before = t.report.Ended
		}
	}
	answered()
	e.wait(ctx, targets)
	return e.report(targets)
}

// slow is how long the daemon may take before the caller gets a message.
const slow = 3 * time.Second

// sayIfSlow prints that the daemon has not answered, unless answered is called in time.
func (e *Ender) sayIfSlow() (answered func()) {
	t := time.AfterFunc(slow, func() { e.Console.Say("end: no answer from the daemon yet; still waiting, Ctrl-C gives up") })
	return func() { t.Stop() }
}

// resolve asks for the sessions that words name, each of them once. The beginning of an id
// is enough only with --dry-run or --if-plan.
func resolve(ctx context.Context, c api.Client, o *Options, words []string) []*target {
	var targets []*target
	seen := map[string]bool{}
	for _, word := range words {
		s, err := c.Session(ctx, word)
		if err == nil && s.ID != word && s.Name != word && !o.DryRun && o.Plan == "" {
			s, err = nil, api.NewError(api.CodeNotFound, fmt.Sprintf("session %s: not found", word), fmt.Sprintf("to end %s name it in full", s.ID))
		}
		if err == nil && seen[s.ID] {
			continue
		}
		t := &target{session: s, err: err}
		if err == nil {
			seen[s.ID] = true
			t.word = s.ID
		}
		targets = append(targets, t)
	}
	return targets
}

// report prints the receipts, prints errors on stderr, and returns the worst exit code
// as an error without text.
func (e *Ender) report(targets []*target) error {
	var reports []text.Receipt
	for _, t := range targets {
		if t.report != nil {
			t.report.Head = text.Head("report")
			reports = append(reports, text.Receipt{Report: t.report, Before: t.before})
		}
	}
	if len(reports) > 0 {
		if err := e.Console.Print(e.Format, text.Receipts(reports, len(targets) > 1)); err != nil {
			return err
		}
	}
	worst, said := api.ExitOK, ""
	for _, t := range targets {
		switch {
		case t.err != nil:
			if t.err.Error() != said { // the daemon is lost for all
				e.Console.Complain(t.err)
			}
			said = t.err.Error()
			worst = max(worst, exit.Code(t.err))
		case t.report.Verdict != api.VerdictClean:
			e.Console.Say("%s", text.Shortfall(t.report))
			worst = max(worst, api.ExitLeft)
		}
	}
	return exit.Silent(worst)
}

var (
	errNotHalted      = exit.Errorf(api.ExitFailed, "halt: not confirmed, nothing was changed")
	errCannotAskHalts = exit.Usage("halt: cannot ask for confirmation (not a terminal); use --yes")
)

// Halt halts the host, and waits until the sessions that words name are over; all of them without words. On
// a terminal it asks first. Sessions that start meanwhile end, too.
func (e *Ender) Halt(ctx context.Context, words []string, reason string) error {
	e.Now = true
	if e.DryRun || !e.Yes {
		chosen := words
		if len(words) == 0 {
			list, err := e.Client.Sessions(ctx, "live", "")
			if err != nil {
				return err
			}
			for i := range list.Items {
				chosen = append(chosen, list.Items[i].ID)
			}
		}
		if e.DryRun {
			return e.dryRun(ctx, chosen, true)
		}
		if !e.Console.CanAsk() {
			return errCannotAskHalts
		}
		if agreed, err := e.askHalt(ctx, resolve(ctx, e.Client, &e.Options, chosen)); !agreed {
			return err
		}
	}
	done, err := e.Client.Halt(ctx, api.HaltRequest{Mode: api.ModeHalt, Reason: reason, Sessions: words})
	if err != nil {
		return err
	}
	e.Console.Say("%s", display.HaltLine(done.Halt))
	var targets []*target
	for _, s := range done.Items {
		t := &target{word: s.ID}
		if s.Refused != "" {
			t.err = api.NewError(api.CodeGuarded, fmt.Sprintf("halt: session %s is not ended: %s", s.ID, s.Refused), "")
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

// askHalt shows what will die and asks for a yes.
func (e *Ender) askHalt(ctx context.Context, targets []*target) (bool, error) {
	for _, t := range targets {
		if t.err != nil {
			return false, t.err
		}
	}
	p := e.Console.Page(e.Console.Stderr, false)
	sessions, processes := e.list(ctx, p, targets)
	p.Wrap(0, fmt.Sprintf(`%s with %s will end, and known agents die at their exec until "lineage halt --off"`,
		display.Count(sessions, "session", "sessions"), display.Count(processes, "process", "processes")))
	if err := p.Flush(); err != nil {
		return false, err
	}
	if !e.Console.Agreed("Halt this host?") {
		return false, errNotHalted
	}
	return true, nil
}
