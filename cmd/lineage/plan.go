package main

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
)

// dryRun shows what an end would do.
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
			a.Complain(t.err)
			worst = max(worst, exit.Code(t.err))
			continue
		}
		plans = append(plans, plan)
		how[plan] = signals(t.session, o)
	}
	err := a.showPlans(plans, how, len(targets) > 1, format)
	if worst == api.ExitOK || exit.Code(err) > worst {
		return err
	}
	return exit.Told(worst)
}
