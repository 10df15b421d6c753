package ending

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// process is that of which a branch ends: named, or the agent of a tool call, of the selected sessions.
func (e *Ender) process(ctx context.Context) (string, error) {
	if e.Branch {
		refs, err := api.Processes(ctx, e.Client, e.Sessions.Words[0])
		switch {
		case err != nil:
			return "", err
		case len(refs) != 1:
			return "", cli.Usage("end: %d processes have %s; name one of them", len(refs), e.Sessions.Words[0])
		}
		return refs[0].String(), nil
	}
	list, err := e.Sessions.OrAll().LeftBy(ctx, e.Client)
	if err != nil {
		return "", err
	}
	agent, err := list.AgentOf(e.Call)
	if err != nil {
		return "", fmt.Errorf("end: %w", err)
	}
	return agent.String(), nil
}

// endBranch ends one process and everything that it ever started, or what it started in a tool call.
func (e *Ender) endBranch(ctx context.Context) error {
	ref, err := e.process(ctx)
	if err != nil {
		return err
	}
	if e.DryRun || !e.Yes {
		plan, err := e.Client.PlanBranch(ctx, ref, e.Call)
		if err != nil {
			return err
		}
		s, err := e.Client.Session(ctx, plan.Session)
		if err != nil {
			return err
		}
		if e.DryRun {
			err := refused(plan)
			if failed := e.Console.Print(e.Format, text.Plans([]*api.Plan{plan},
				map[*api.Plan]string{plan: e.signals(s)}, false)); failed != nil {
				return failed
			}
			return e.Console.Failed(err)
		}
		if err := e.askBranch(plan, e.signals(s)); err != nil {
			return err
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

// askBranch shows what will die, and returns an error unless the user agrees.
func (e *Ender) askBranch(plan *api.Plan, how string) error {
	if plan.RefusedBy != "" || len(plan.Processes) == 0 {
		return nil // the daemon will say what is wrong
	}
	p := e.Console.Page(e.Console.Stderr, false)
	p.Wrap(0, fmt.Sprintf("%s in session %s: %s will get %s", text.BranchOf(plan),
		display.Text(plan.Session), display.Count(len(plan.Processes), "process"), how))
	branch := make([]*api.Process, len(plan.Processes))
	for i := range plan.Processes {
		branch[i] = &plan.Processes[i].Process
	}
	text.WriteListed(p, branch)
	p.Wrap(2, display.Ambiguous(plan))
	return e.Console.Confirm("end", p, "End them?")
}
