package ending

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Fleet ends the sessions of the same names on many hosts.
type Fleet struct {
	Options
	Console *console.Console
	Dial    hosts.Dialer
	Hosts   hosts.List
	Format  string // of plans and receipts
}

// planned is what an end would do on one host.
type planned struct {
	plans []*api.Plan // of the sessions that can be ended
	how   map[*api.Plan]string
	grace time.Duration // the longest
}

// listing shows the plans of a host.
func (p *planned) listing() *text.Listing {
	if len(p.plans) == 0 {
		return nil
	}
	return text.Plans(p.plans, p.how, true)
}

// End makes a plan on every host, asks once, and ends under the plan of each host, on one host first:
// processes that came later are not hit.
func (f *Fleet) End(ctx context.Context, words []string) error {
	var mu sync.Mutex
	plans := map[string]*planned{} // of the hosts that answer
	shown := hosts.Each(ctx, f.Dial, f.Hosts, hosts.Time, func(ctx context.Context, host string, c api.Client) (*text.Listing, error) {
		p, err := planOn(ctx, c, &f.Options, words)
		mu.Lock()
		defer mu.Unlock()
		plans[host] = p
		return p.listing(), err
	})
	var ready hosts.List
	var missed []string
	for _, answer := range shown {
		if answer.Err != nil && answer.Exit != api.ExitNotFound {
			missed = append(missed, answer.Host)
		}
		if answer.Listing != nil {
			ready = append(ready, answer.Host)
		}
	}
	switch {
	case f.DryRun || len(ready) == 0:
		return hosts.Print(f.Console, f.Format, shown)
	case f.Many.AllOrNone && len(missed) > 0:
		err := hosts.Print(f.Console, f.Format, shown)
		f.Console.Say("end: nothing was sent, because of %s (--all-or-none)", strings.Join(missed, ", "))
		return err
	case len(ready) > f.Many.Most:
		return hosts.TooMany("end", len(ready), f.Many.Most)
	case !f.Yes && !f.Console.CanAsk():
		return errCannotAsk
	case !f.Yes:
		if goOn, err := f.ask(shown, ready, plans); err != nil {
			return err
		} else if !goOn {
			return errNotConfirmed
		}
	}
	for _, ended := range f.end(ctx, ready, plans) {
		before := &shown[slices.IndexFunc(shown, func(a text.HostAnswer) bool { return a.Host == ended.Host })]
		if ended.Err == nil {
			ended.Err, ended.Exit = before.Err, before.Exit // what the plan could not include
		}
		*before = ended
	}
	return hosts.Print(f.Console, f.Format, shown)
}

// ask shows the plans of all hosts and asks for a yes.
func (f *Fleet) ask(shown []text.HostAnswer, ready hosts.List, plans map[string]*planned) (bool, error) {
	p := f.Console.Page(f.Console.Stderr, false)
	text.Hosts(shown).Text(p)
	sessions := 0
	for _, host := range ready {
		sessions += len(plans[host].plans)
	}
	return confirm(f.Console, p, display.Count(sessions, "session", "sessions")+" on "+display.Count(len(ready), "host", "hosts"))
}

// end ends what is planned, and returns each host's answer.
func (f *Fleet) end(ctx context.Context, ready hosts.List, plans map[string]*planned) []text.HostAnswer {
	grace := time.Duration(0)
	for _, p := range plans {
		grace = max(grace, p.grace)
	}
	return hosts.Waves(ctx, f.Dial, ready, hosts.Time+grace+f.Timeout, func(ctx context.Context, host string, c api.Client) (*text.Listing, error) {
		return endOn(ctx, c, &f.Options, plans[host])
	})
}

// planOn makes the plans of one host. The error names what cannot be ended; the rest is in the plans.
func planOn(ctx context.Context, c api.Client, o *Options, words []string) (*planned, error) {
	p := &planned{how: map[*api.Plan]string{}}
	var failed []error
	for _, t := range resolve(ctx, c, o, words) {
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
			p.how[plan] = o.signals(t.session)
			p.grace = max(p.grace, o.grace(t.session))
		}
	}
	return p, worstOf(failed)
}

// worstOf joins errors into one with the worst of their exit codes.
func worstOf(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	worst, messages := api.ExitOK, make([]string, len(failed))
	for i, err := range failed {
		messages[i] = err.Error()
		worst = max(worst, hosts.Code(err))
	}
	return exit.Errorf(worst, "%s", strings.Join(messages, "; "))
}

// endOn ends what is planned on one host, and waits for the verdicts.
func endOn(ctx context.Context, c api.Client, o *Options, p *planned) (*text.Listing, error) {
	var receipts []text.Receipt
	var failed []error
	reports := make([]*api.Report, len(p.plans))
	for i, plan := range p.plans { // all ends begin before the first wait
		req := o.request()
		req.PlanToken = plan.Token
		r, err := c.End(ctx, plan.Session, req)
		if err != nil {
			failed = append(failed, err)
		}
		reports[i] = r
	}
	for _, r := range reports {
		if r == nil {
			continue
		}
		if r.Verdict == "" {
			w := waiting{c: c, id: r.Session, hurried: ctx, timeout: o.Timeout}
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
	return text.Receipts(receipts, true), worstOf(failed)
}
