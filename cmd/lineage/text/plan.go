package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// plansDocument is the document of `end --dry-run -o json` for several sessions.
type plansDocument struct {
	api.Head
	Items []*api.Plan `json:"items"`
}

// Plans shows what ends would do; how says which signals each end sends.
func Plans(plans []*api.Plan, how map[*api.Plan]string, several bool) *Listing {
	l := &Listing{Text: func(p *Page) {
		for _, plan := range plans {
			writePlan(p, plan, how[plan])
		}
	}}
	for _, plan := range plans {
		for _, pr := range plan.Processes {
			pr.Head = api.Head{Kind: "process"}
			pr.Session = plan.Session
			l.Items = append(l.Items, pr)
			l.Names = append(l.Names, pr.Ref.String())
		}
	}
	if several {
		l.Doc = plansDocument{Head("plans"), plans}
	} else {
		l.Doc = plans[0]
	}
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
		display.Count(len(plan.Processes), "process", "processes"), how)))
	var t table
	t.alike(p, planRows(p, plan.Processes), len(plan.Processes))
	t.write(p)
	writeHeld(p, plan.Processes)
	WriteAmbiguous(p, plan)
	for _, s := range plan.Unknown {
		p.Wrap(2, string(display.NotKnown)+" "+display.Text(s))
	}
	switch {
	case plan.RefusedBy != "":
		p.Wrap(2, "refused by a guard: "+display.Text(plan.RefusedBy))
	case plan.Token == "":
	case p.Host != "": // a plan is carried out by the command that made it
		p.Wrap(2, "to end it: lineage end "+again+p.there())
	default:
		p.Wrap(2, fmt.Sprintf("to end this and nothing else: lineage end --if-plan %s %s", display.Text(plan.Token), again))
	}
}

// BranchOf names what the plan of a branch is about.
func BranchOf(plan *api.Plan) string {
	if plan.Call != "" {
		return fmt.Sprintf("what call %s of pid %d has left", display.Text(plan.Call), plan.Branch.PID)
	}
	return fmt.Sprintf("pid %d and what it started", plan.Branch.PID)
}

// WriteAmbiguous says what the end of a call leaves alone.
func WriteAmbiguous(p *Page, plan *api.Plan) {
	if n := plan.Ambiguous; n > 0 {
		p.Wrap(2, display.Count(n, "more process", "more processes")+" may be of it, or of another call that was open at the same time: not ended")
	}
}

// listed limits the rows of a question.
const listed = 20

// WriteListed names the processes that a question is about.
func WriteListed(p *Page, processes []*api.Process) {
	rows := make([]alike, len(processes))
	for i, pr := range processes {
		rows[i] = alike{pr.Ref, false, sort{command: p.Command(pr)}}
	}
	var t table
	rest := t.alike(p, rows, listed)
	for i := range t.rows { // nothing is said about one
		t.rows[i], t.colors[i] = slices.Delete(t.rows[i], 2, 3), slices.Delete(t.colors[i], 2, 3)
	}
	t.write(p)
	for _, n := range rest {
		p.Line("  … and %d more", n)
	}
}

// writeHeld says what processes hold. A socket that many inherited has one line.
func writeHeld(p *Page, processes []api.PlanProcess) {
	var order []string
	holders := map[string][]string{}
	for i := range processes {
		pr := &processes[i]
		for _, held := range heldTexts(pr.Ports, pr.Locks) {
			if holders[held] == nil {
				order = append(order, held)
			}
			holders[held] = append(holders[held], Ref(p, pr.Ref))
		}
	}
	for _, held := range order {
		switch by := holders[held]; {
		case len(by) == 1:
			p.Line("  %s holds %s", by[0], held)
		case len(by) <= equalRows || p.Wide:
			p.Line("  %s hold %s", strings.Join(by, " "), held)
		default:
			p.Line("  %s and %d more hold %s", by[0], len(by)-1, held)
		}
	}
}

// planRows are rows of what an end would do to processes.
func planRows(p *Page, processes []api.PlanProcess) []alike {
	rows := make([]alike, len(processes))
	for i := range processes {
		pr := &processes[i]
		why, color := pr.Why, ""
		if !pr.Killable {
			why, color = why+"; could not be killed: "+pr.Reason, red
		} else if pr.Reason != "" {
			why, color = why+"; "+pr.Reason, yellow
		}
		rows[i] = alike{pr.Ref, !pr.Killable, sort{why, color, p.Command(&pr.Process), strings.Join(heldTexts(pr.Ports, pr.Locks), "\n")}}
	}
	return rows
}
