package ending

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// endCall ends what a tool call has left, of one session if that is named.
func (e *Ender) endCall(ctx context.Context, session string) error {
	list, err := e.Client.Orphans(ctx, session)
	if err != nil {
		return err
	}
	agent, err := list.AgentOf(e.Call)
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return e.endBranch(ctx, agent.String())
}

// endBranch ends one process and everything that it ever started, or what it started in a tool call.
func (e *Ender) endBranch(ctx context.Context, ref string) error {
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
		return "", err
	}
	return p.Ref.String(), nil
}

// askBranch shows what will die and asks for a yes.
func (e *Ender) askBranch(plan *api.Plan, how string) (bool, error) {
	if plan.RefusedBy != "" || len(plan.Processes) == 0 {
		return true, nil // the daemon will say what is wrong
	}
	p := e.Console.Page(e.Console.Stderr, false)
	p.Wrap(0, fmt.Sprintf("%s in session %s: %s will get %s", text.BranchOf(plan),
		display.Text(plan.Session), display.Count(len(plan.Processes), "process", "processes"), how))
	branch := make([]*api.Process, len(plan.Processes))
	for i := range plan.Processes {
		branch[i] = &plan.Processes[i].Process
	}
	text.WriteListed(p, branch)
	text.WriteAmbiguous(p, plan)
	return confirm(e.Console, p, "them")
}
