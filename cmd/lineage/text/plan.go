package text

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Plans shows what ends would do; how says which signals each end sends.
func Plans(plans []*api.Plan, how map[*api.Plan]string, several bool) *Listing {
	l := &Listing{Text: func(p *Page) {
		for _, plan := range plans {
			writePlan(p, plan, how[plan])
		}
		if several && p.Host == "" {
			writeTogether(p, plans)
		}
	}}
	for _, plan := range plans {
		for _, pr := range plan.Processes {
			pr.Head = api.Head{Kind: "process"}
			pr.Session = plan.Session
			l.add(pr, pr.Ref.String())
		}
	}
	l.Doc = documentOf(several, "plans", plans)
	return l
}

func writePlan(p *Page, plan *api.Plan, how string) {
	id := display.Text(strings.TrimSpace(plan.Session + " " + plan.Name))
	again := plan.Session
	switch {
	case plan.Call != "":
		id, again = BranchOf(plan), display.Command([]string{"--call", plan.Call, plan.Session}, "", false, 0)
	case plan.Branch != nil:
		id, again = BranchOf(plan), "--branch "+plan.Branch.String()
	}
	if len(plan.Processes) == 0 {
		p.Line("%s", p.paint(bold, fmt.Sprintf("%s: %s, nothing to end", id, display.Text(plan.State))))
		return
	}
	p.Wrap(0, p.paint(bold, fmt.Sprintf("%s: %s would get %s; nothing was sent", id,
		display.Count(len(plan.Processes), "process"), how)))
	p.list(display.Plan(plan, p.names(0)))
	switch {
	case plan.RefusedBy != "":
		p.Wrap(2, "refused by a guard: "+display.Text(plan.RefusedBy))
	case plan.Token == "":
	case p.Host != "": // a plan is carried out by the command that made it
		p.Wrap(2, "to end it: lineage end "+again+p.there())
	default:
		p.Wrap(2, fmt.Sprintf("to end this and nothing else: lineage end --if-plan %s %s",
			display.Text(plan.Token), again))
	}
}

// writeTogether says how to end several sessions under their plans.
func writeTogether(p *Page, plans []*api.Plan) {
	var tokens, ids []string
	for _, plan := range plans {
		if plan.RefusedBy == "" && plan.Token != "" {
			tokens, ids = append(tokens, plan.Token), append(ids, plan.Session)
		}
	}
	if len(ids) > 1 {
		p.Wrap(
			0,
			fmt.Sprintf(
				"to end all of these and nothing else: lineage end --if-plan %s %s",
				display.Text(strings.Join(tokens, ",")),
				strings.Join(ids, " "),
			),
		)
	}
}

func BranchOf(plan *api.Plan) string {
	if plan.Call != "" {
		return fmt.Sprintf("what call %s of pid %d has left", display.Text(plan.Call), plan.Branch.PID)
	}
	return fmt.Sprintf("pid %d and what it started", plan.Branch.PID)
}

// WriteListed names the processes that a question is about.
func WriteListed(p *Page, processes []*api.Process) {
	p.list(display.Live(processes, p.names(shownRows)))
}
