package ending

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// planned is what an end would do on one host.
type planned struct {
	targets []*target // on many hosts
	plans   []*api.Plan
	how     map[*api.Plan]string
	grace   time.Duration // the longest
}

// plan asks what the ends would do. A target that could not end has an error, also if it has a plan.
func (e *Ender) plan(ctx context.Context, targets []*target) *planned {
	p := &planned{how: map[*api.Plan]string{}}
	for _, t := range targets {
		if t.err != nil {
			continue
		}
		plan, err := e.Client.Plan(ctx, t.word)
		if err == nil {
			t.plan, p.plans = plan, append(p.plans, plan)
			p.how[plan] = e.signals(t.session) + e.activity(t.session, e.Console.Now())
			p.grace = max(p.grace, e.grace(t.session))
			err = refused(plan)
		}
		t.err = err
	}
	return p
}

// refused is the error of a plan that a guard would refuse.
func refused(plan *api.Plan) error {
	plan.Head = text.Head("plan")
	if plan.RefusedBy == "" {
		return nil
	}
	return cli.Errorf(api.ExitDenied, "end %s: it would be refused: %s", plan.Session, plan.RefusedBy)
}

// errorsOf are the errors of targets.
func errorsOf(targets []*target) (errs []error) {
	for _, t := range targets {
		if t.err != nil {
			errs = append(errs, t.err)
		}
	}
	return errs
}

// dryRun shows what an end would do, or a halt, which carries out no plan.
func (e *Ender) dryRun(ctx context.Context, targets []*target, halt bool) error {
	p := e.plan(ctx, targets)
	for i := 0; halt && i < len(p.plans); i++ {
		p.plans[i].Token = ""
	}
	if len(p.plans) > 0 {
		if err := e.Console.Print(e.Format, text.Plans(p.plans, p.how, len(targets) > 1)); err != nil {
			return err
		}
	}
	return e.Console.Failed(errorsOf(targets)...)
}
