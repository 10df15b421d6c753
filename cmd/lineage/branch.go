package main

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// endBranch ends one process and everything that it ever started.
func (a *app) endBranch(ctx context.Context, c api.Client, o endOptions, word, format string) error {
	ref, err := memberRef(ctx, c, word)
	if err != nil {
		return err
	}
	if o.dryRun || !o.yes {
		plan, err := c.PlanBranch(ctx, ref)
		if err != nil {
			return err
		}
		s, err := c.Session(ctx, plan.Session)
		if err != nil {
			return err
		}
		if o.dryRun {
			return a.showPlans([]*api.Plan{plan}, map[*api.Plan]string{plan: signals(s, o)}, false, format)
		}
		if !a.CanAsk() {
			return errCannotAsk
		}
		goOn, err := a.askBranch(plan, signals(s, o))
		if err != nil {
			return err
		}
		if !goOn {
			return errNotConfirmed
		}
	}
	answered := a.sayIfSlow()
	report, err := c.EndBranch(ctx, ref, o.request())
	answered()
	if err != nil {
		return err
	}
	targets := []*target{{word: report.Session, report: report}}
	for _, id := range report.Also {
		t := &target{word: id}
		t.report, t.err = c.Report(ctx, id, 0)
		targets = append(targets, t)
	}
	a.wait(ctx, c, o, targets)
	return a.report(targets, format)
}

// memberRef gives PID@START: of a PID alone, that of the process that has it now.
func memberRef(ctx context.Context, c api.Client, word string) (string, error) {
	ref, err := api.ParseRef(word)
	if err != nil {
		return "", exit.Usage("end %s: not a process; name it as PID or PID@START", word)
	}
	if ref.StartNS != 0 {
		return ref.String(), nil
	}
	p, err := c.Process(ctx, word)
	if err != nil {
		return "", asEnd(err)
	}
	return p.Ref.String(), nil
}

// askBranch shows what will die and asks for a yes.
func (a *app) askBranch(plan *api.Plan, how string) (bool, error) {
	if plan.RefusedBy != "" || len(plan.Processes) == 0 {
		return true, nil // the daemon says what is wrong
	}
	p := a.Page(a.Stderr, false)
	p.Wrap(0, fmt.Sprintf("pid %d and what it started in session %s: %s will get %s", plan.Branch.PID,
		display.Text(plan.Session), display.Count(len(plan.Processes), "process", "processes"), how))
	for i := range plan.Processes {
		if i == listed {
			p.Line("  … and %d more", len(plan.Processes)-i)
			break
		}
		p.Line("  %d %s", plan.Processes[i].PID, p.Command(&plan.Processes[i].Process))
	}
	return a.confirm(p, "them")
}

// showPlans prints plans. One that a guard would refuse makes it fail as the end would.
func (a *app) showPlans(plans []*api.Plan, how map[*api.Plan]string, several bool, format string) error {
	worst := api.ExitOK
	for _, plan := range plans {
		plan.Head = text.Head("plan")
		if plan.RefusedBy != "" {
			a.Say("end %s: it would be refused: %s", plan.Session, plan.RefusedBy)
			worst = max(worst, api.ExitDenied)
		}
	}
	if len(plans) > 0 {
		if err := a.Print(format, text.Plans(plans, how, several)); err != nil {
			return err
		}
	}
	return exit.Told(worst)
}
