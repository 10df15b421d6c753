package ending

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// dryRun shows what an end would do, or a halt, which carries out no plan.
func (e *Ender) dryRun(ctx context.Context, words []string, halt bool) error {
	targets := resolve(ctx, e.Client, &e.Options, words)
	var plans []*api.Plan
	how := map[*api.Plan]string{}
	worst := api.ExitOK
	for _, t := range targets {
		var plan *api.Plan
		if t.err == nil {
			plan, t.err = e.Client.Plan(ctx, t.session.ID)
		}
		if t.err != nil {
			e.Console.Complain(t.err)
			worst = max(worst, exit.Code(t.err))
			continue
		}
		if halt {
			plan.Token = ""
		}
		plans = append(plans, plan)
		how[plan] = e.signals(t.session) + e.activity(t.session, e.Console.Now())
	}
	err := e.showPlans(plans, how, len(targets) > 1)
	if worst == api.ExitOK || exit.Code(err) > worst {
		return err
	}
	return exit.Silent(worst)
}

// showPlans prints plans. If a guard would refuse one, showPlans fails as the end would.
func (e *Ender) showPlans(plans []*api.Plan, how map[*api.Plan]string, several bool) error {
	worst := api.ExitOK
	for _, plan := range plans {
		plan.Head = text.Head("plan")
		if plan.RefusedBy != "" {
			e.Console.Say("end %s: it would be refused: %s", plan.Session, plan.RefusedBy)
			worst = max(worst, api.ExitDenied)
		}
	}
	if len(plans) > 0 {
		if err := e.Console.Print(e.Format, text.Plans(plans, how, several)); err != nil {
			return err
		}
	}
	return exit.Silent(worst)
}
