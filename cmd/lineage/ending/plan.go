package ending

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type planned struct {
	targets []*target // on many hosts
	plans   []*api.Plan
	how     map[*api.Plan]string
	grace   time.Duration // the longest
}

// plan asks what the ends would do. A target that could not end has an error, also if it has a plan.
func (e *Ender) plan(ctx context.Context, targets []*target) *planned {
	p := &planned{how: map[*api.Plan]string{}}
	for _, t := range targets {
		if t.err != nil {
			continue
		}
		plan, err := e.Client.Plan(ctx, t.word)
		if err == nil {
			t.plan, p.plans = plan, append(p.plans, plan)
			p.how[plan] = e.signals(t.session) + e.activity(t.session, e.Console.Now())
			p.grace = max(p.grace, e.grace(t.session))
			err = refused(plan)
		}
		t.err = err
	}
	return p
}

// refused is the error of a plan that a guard would refuse.
func refused(plan *api.Plan) error {
	plan.Head = api.NewHead("plan")
	if plan.RefusedBy == "" {
		return nil
	}
	return cli.Errorf(api.ExitDenied, "end %s: it would be refused: %s", plan.Session, plan.RefusedBy)
}

func errorsOf(targets []*target) (errs []error) {
	for _, t := range targets {
		if t.err != nil {
			errs = append(errs, t.err)
		}
	}
	return errs
}

// dryRun shows what an end would do, or a halt, which carries out no plan.
func (e *Ender) dryRun(ctx context.Context, targets []*target, halt bool) error {
	p := e.plan(ctx, targets)
	for i := 0; halt && i < len(p.plans); i++ {
		p.plans[i].Token = ""
	}
	if len(p.plans) > 0 {
		if err := e.Console.Print(e.Format, text.Plans(p.plans, p.how, len(targets) > 1)); err != nil {
			return err
		}
	}
	return e.Console.Failed(errorsOf(targets)...)
}

type target struct {
	word    string       // by which the daemon finds it
	named   bool         // alone, by a word
	session *api.Session // nil: not requested yet
	plan    *api.Plan    // that has to hold; nil: none, or that of the options
	report  *api.Report
	before  *time.Time // when it ended, if that was before our request
	err     error
}

// selection is what is selected. To end it without a plan ids have to be whole.
func (e *Ender) selection() *api.Selection {
	sel := e.Sessions
	sel.Whole = !e.DryRun && e.Plan == ""
	return &sel
}

// choose finds the sessions to end, and says which of those that no word names alone are spared: of other
// users, kept, and those with one inside that is kept or not selected for what it does. Of nested sessions only the
// outermost is a target: the others end with it. A process stands for its session, unless nobody will see that.
func (e *Ender) choose(ctx context.Context) (targets []*target, err error) {
	found, err := e.selection().Find(ctx, e.Client)
	if err != nil {
		return nil, err
	}
	inside := map[string]bool{} // of one that ends
	for _, c := range found.Choices {
		if c.Err != nil {
			targets = append(targets, &target{err: c.Err})
			continue
		}
		t := &target{word: c.Session.ID, named: c.Named, session: c.Session}
		switch why := e.Sessions.Spares(c.Session, found.List.Items, e.UID); {
		case !c.Named && why != "":
			e.Console.Say("end: session %s%s is not ended: %s", t.word, e.at, why)
			continue
		case c.Within != "":
			said := fmt.Sprintf("end: %s belongs to session %s%s", c.Within, name(c.Session), e.at)
			if e.Yes && !e.DryRun && e.Plan == "" {
				t.err = cli.Usage("%s; --yes ends a session that is named, or the process and its descendants with --branch", said)
			} else {
				e.Console.Say("%s: this ends the session; for the process and its descendants use --branch", said)
			}
		}
		targets = append(targets, t)
		api.Within(found.List.Items, t.word, func(n *api.Session) bool { inside[n.ID] = true; return false })
	}
	return slices.DeleteFunc(targets, func(t *target) bool { return !t.named && inside[t.word] }), nil
}
