package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// plansDocument is `end --dry-run -o json` of several sessions.
type plansDocument struct {
	api.Head
	Items []*api.Plan `json:"items"`
}

// dryRun shows what an end would do. A session that a guard would refuse to
// end makes it fail as that end would.
func (a *app) dryRun(ctx context.Context, c api.Client, o endOptions, args []string, format string) error {
	targets := resolve(ctx, c, args)
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
		plan.Head = head("plan")
		plans = append(plans, plan)
		how[plan] = signals(t.session, o)
		if plan.RefusedBy != "" {
			a.say("end %s: it would be refused: %s", plan.Session, plan.RefusedBy)
			worst = max(worst, api.ExitDenied)
		}
	}
	if len(plans) > 0 {
		if err := a.print(format, planListing(plans, how, len(targets) > 1)); err != nil {
			return err
		}
	}
	if worst == api.ExitOK {
		return nil
	}
	return &exitError{code: worst}
}

func planListing(plans []*api.Plan, how map[*api.Plan]string, several bool) listing {
	l := listing{text: func(p *page) {
		for _, plan := range plans {
			writePlan(p, plan, how[plan])
		}
	}}
	for _, plan := range plans {
		for _, pr := range plan.Processes {
			pr.Head = api.Head{Kind: "process"}
			pr.Session = plan.Session
			l.items = append(l.items, pr)
			l.names = append(l.names, pr.Ref.String())
		}
	}
	if several {
		l.doc = plansDocument{head("plans"), plans}
	} else {
		l.doc = plans[0]
	}
	return l
}

func writePlan(p *page, plan *api.Plan, how string) {
	id := display.Text(strings.TrimSpace(plan.Session + " " + plan.Name))
	if len(plan.Processes) == 0 {
		p.line("%s", p.paint(bold, fmt.Sprintf("%s: %s, nothing to end", id, display.Text(plan.State))))
		return
	}
	p.line("%s", p.paint(bold, fmt.Sprintf("%s: %s would get %s; nothing was sent", id,
		count(len(plan.Processes), "process", "processes"), how)))
	var t table
	for i := range plan.Processes {
		pr := &plan.Processes[i]
		why := display.Text(pr.Why)
		color := ""
		if !pr.Killable {
			why, color = why+"; could not be killed: "+display.Text(pr.Reason), red
		} else if pr.Reason != "" {
			why, color = why+"; "+display.Text(pr.Reason), yellow
		}
		t.paintedRow([]string{"", "", color}, "", refText(p, pr.Ref), why, p.command(&pr.Process))
	}
	t.write(p)
	for i := range plan.Processes {
		pr := &plan.Processes[i]
		for _, held := range heldTexts(pr.Ports, pr.Locks) {
			p.line("  %s holds %s", refText(p, pr.Ref), held)
		}
	}
	for _, s := range plan.Unknown {
		p.line("  not known of ports and locks: %s", display.Text(s))
	}
	if plan.RefusedBy != "" {
		p.line("  refused by a guard: %s", display.Text(plan.RefusedBy))
		return
	}
	p.line("  to end this and nothing else: lineage end --if-plan %s %s", display.Text(plan.Token), plan.Session)
}
