package main

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// dryRun shows what an end would do. A session that a guard would refuse to
// end makes it fail as that end would.
func (a *app) dryRun(ctx context.Context, c api.Client, o endOptions, args []string, format string) error {
	targets := resolve(ctx, c, o, args)
	var plans []*api.Plan
	how := map[*api.Plan]string{}
	worst := api.ExitOK
	for _, t := range targets {
		var plan *api.Plan
		if t.err == nil {
			plan, t.err = c.Plan(ctx, t.session.ID)
		}
		if t.err != nil {
			a.complain(t.err)
			worst = max(worst, exitCode(t.err))
			continue
		}
		plan.Head = text.Head("plan")
		plans = append(plans, plan)
		how[plan] = signals(t.session, o)
		if plan.RefusedBy != "" {
			a.say("end %s: it would be refused: %s", plan.Session, plan.RefusedBy)
			worst = max(worst, api.ExitDenied)
		}
	}
	if len(plans) > 0 {
		if err := a.print(format, text.Plans(plans, how, len(targets) > 1)); err != nil {
			return err
		}
	}
	if worst == api.ExitOK {
		return nil
	}
	return &exitError{code: worst}
}
