package main

import (
	"context"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// checkHosts refuses what cannot be meant on many hosts.
func (o *endOptions) checkHosts(list hosts.List) error {
	switch {
	case len(list) == 0 && o.allOrNone:
		return exit.Usage("end: --all-or-none belongs to -H")
	case len(list) > 0 && o.chooses():
		return exit.Usage("end: --all and --mine are for this host; with -H name the sessions")
	case len(list) > 0 && o.plan != "":
		return exit.Usage("end: --if-plan is for this host; -H makes a plan on each host, and ends under it")
	}
	return nil
}

// planned is what an end would do on one host.
type planned struct {
	targets []*target
	plans   []*api.Plan // of the targets that can be ended
	how     map[*api.Plan]string
	grace   time.Duration // the longest
}

// listing shows the plans of a host.
func (p *planned) listing() *text.Listing {
	if len(p.plans) == 0 {
		return nil
	}
	l := text.Plans(p.plans, p.how, true)
	return &l
}

// endOnHosts makes a plan on every host, asks once, and ends on every host under its plan:
// what has come in meanwhile is not hit.
func (a *app) endOnHosts(ctx context.Context, list hosts.List, o endOptions, args []string, format string) error {
	dial, err := a.hostDialer()
	if err != nil {
		return err
	}
	answers := hosts.Each(ctx, dial, list, hosts.Time, func(ctx context.Context, _ string, c api.Client) (*planned, error) {
		return planOn(ctx, c, o, args)
	})
	shown := make([]text.HostAnswer, len(answers))
	plans := map[string]*planned{}
	var ready hosts.List
	var missed []string
	grace := time.Duration(0)
	for i, answer := range answers {
		p := answer.Value
		if p == nil {
			p = &planned{}
		}
		shown[i] = hosts.Listed(answer.Host, p.listing(), answer.Err)
		if shown[i].Err != nil && shown[i].Exit != api.ExitNotFound {
			missed = append(missed, answer.Host)
		}
		if len(p.plans) > 0 {
			plans[answer.Host] = p
			ready = append(ready, answer.Host)
			grace = max(grace, p.grace)
		}
	}
	switch {
	case o.dryRun || len(ready) == 0:
		return hosts.Print(&a.Console, format, shown)
	case o.allOrNone && len(missed) > 0:
		err := hosts.Print(&a.Console, format, shown)
		a.Say("end: nothing was sent, because of %s (--all-or-none)", strings.Join(missed, ", "))
		return err
	case !o.yes && !a.CanAsk():
		return exit.Usage("end: cannot ask for confirmation (not a terminal); use --yes")
	case !o.yes:
		if goOn, err := a.askHostsEnd(shown, ready, plans); err != nil {
			return err
		} else if !goOn {
			return exit.Errorf(api.ExitFailed, "end: not confirmed, nothing was sent")
		}
	}
	ended := hosts.Each(ctx, dial, ready, hosts.Time+grace+o.timeout, func(ctx context.Context, host string, c api.Client) (*text.Listing, error) {
		return endOn(ctx, c, o, plans[host])
	})
	byHost := map[string]text.HostAnswer{}
	for _, answer := range ended {
		byHost[answer.Host] = hosts.Listed(answer.Host, answer.Value, answer.Err)
	}
	for i := range shown {
		result, ok := byHost[shown[i].Host]
		if !ok {
			continue
		}
		if result.Err == nil {
			result.Err, result.Exit = shown[i].Err, shown[i].Exit // what could not be planned
		}
		shown[i] = result
	}
	return hosts.Print(&a.Console, format, shown)
}

// planOn makes the plans of one host. What cannot be ended is in the error; the rest can.
func planOn(ctx context.Context, c api.Client, o endOptions, args []string) (*planned, error) {
	p := &planned{targets: resolve(ctx, c, o, args), how: map[*api.Plan]string{}}
	var failed []error
	for _, t := range p.targets {
		plan := &api.Plan{}
		if t.err == nil {
			plan, t.err = c.Plan(ctx, t.session.ID)
		}
		if t.err == nil && plan.RefusedBy != "" {
			t.err = exit.Errorf(api.ExitDenied, "end %s: it would be refused: %s", t.session.ID, plan.RefusedBy)
		}
		switch {
		case t.err != nil:
			failed = append(failed, t.err)
		case t.session.State != api.StateEnded:
			plan.Head = text.Head("plan")
			p.plans = append(p.plans, plan)
			p.how[plan] = signals(t.session, o)
			p.grace = max(p.grace, graceOf(t.session, o))
		}
	}
	return p, worstOf(failed)
}

// worstOf joins errors to one with the worst of their exit codes.
func worstOf(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	worst, said := api.ExitOK, make([]string, len(failed))
	for i, err := range failed {
		said[i] = err.Error()
		worst = max(worst, hosts.Listed("", nil, err).Exit)
	}
	return exit.Errorf(worst, "%s", strings.Join(said, "; "))
}

// endOn ends what is planned on one host, and waits for the verdicts.
func endOn(ctx context.Context, c api.Client, o endOptions, p *planned) (*text.Listing, error) {
	var receipts []text.Receipt
	var failed []error
	reports := make([]*api.Report, len(p.plans))
	for i, plan := range p.plans { // all are told before one is waited for
		req := o.request()
		req.PlanToken = plan.Token
		r, err := c.End(ctx, plan.Session, req)
		if err != nil {
			failed = append(failed, asEnd(err))
		}
		reports[i] = r
	}
	for _, r := range reports {
		if r == nil {
			continue
		}
		if r.Verdict == "" {
			w := waiting{c: c, id: r.Session, hurried: ctx, timeout: o.timeout}
			last, err := w.report(ctx, p.grace)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			r = last
		}
		r.Head = text.Head("report")
		receipts = append(receipts, text.Receipt{Report: r})
		if r.Verdict != api.VerdictClean {
			failed = append(failed, exit.Errorf(api.ExitLeft, "%s", text.Shortfall(r)))
		}
	}
	if len(receipts) == 0 {
		return nil, worstOf(failed)
	}
	l := text.Receipts(receipts, true)
	return &l, worstOf(failed)
}

// askHostsEnd shows the plans of all hosts and asks for a yes.
func (a *app) askHostsEnd(shown []text.HostAnswer, ready hosts.List, plans map[string]*planned) (bool, error) {
	p := a.Page(a.Stderr, false)
	text.Hosts(shown).Text(p)
	sessions := 0
	for _, host := range ready {
		sessions += len(plans[host].plans)
	}
	return a.confirm(p, display.Count(sessions, "session", "sessions")+" on "+display.Count(len(ready), "host", "hosts"))
}
