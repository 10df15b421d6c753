package ending

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// endBranch ends one process and everything that it ever started.
func (e *Ender) endBranch(ctx context.Context, word string) error {
	ref, err := memberRef(ctx, e.Client, word)
	if err != nil {
		return err
	}
	if e.DryRun || !e.Yes {
		plan, err := e.Client.PlanBranch(ctx, ref)
		if err != nil {
			return err
		}
		s, err := e.Client.Session(ctx, plan.Session)
		if err != nil {
			return err
		}
		if e.DryRun {
			return e.showPlans([]*api.Plan{plan}, map[*api.Plan]string{plan: e.signals(s)}, false)
		}
		if !e.Console.CanAsk() {
			return errCannotAsk
		}
		goOn, err := e.askBranch(plan, e.signals(s))
		if err != nil {
			return err
		}
		if !goOn {
			return errNotConfirmed
		}
	}
	answered := e.sayIfSlow()
	report, err := e.Client.EndBranch(ctx, ref, e.request())
	answered()
	if err != nil {
		return err
	}
	targets := []*target{{word: report.Session, report: report}}
	for _, id := range report.Also {
		t := &target{word: id}
		t.report, t.err = e.Client.Report(ctx, id, 0)
		targets = append(targets, t)
	}
	e.wait(ctx, targets)
	return e.report(targets)
}

// memberRef returns PID@START; for a PID alone, of the process that has it now.
func memberRef(ctx context.Context, c api.Client, word string) (string, error) {
	ref, err := api.ParseRef(word)
	if err != nil {
		return "", exit.Usage("end: %w", exit.Invalid("PID", word, "PID or PID@START"))
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
func (e *Ender) askBranch(plan *api.Plan, how string) (bool, error) {
	if plan.RefusedBy != "" || len(plan.Processes) == 0 {
		return true, nil // the daemon will say what is wrong
	}
	p := e.Console.Page(e.Console.Stderr, false)
	p.Wrap(0, fmt.Sprintf("pid %d and what it started in session %s: %s will get %s", plan.Branch.PID,
		display.Text(plan.Session), display.Count(len(plan.Processes), "process", "processes"), how))
	branch := make([]*api.Process, len(plan.Processes))
	for i := range plan.Processes {
		branch[i] = &plan.Processes[i].Process
	}
	text.WriteListed(p, branch)
	return confirm(e.Console, p, "them")
}
