package ending

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Fleet ends the sessions of the same names on many hosts.
type Fleet struct {
	Ender
	Dial  hosts.Dialer
	Hosts hosts.List
}

// End makes a plan on every host, asks once, and ends under the plan of each host, on one host first:
// processes that came later are not hit.
func (f *Fleet) End(ctx context.Context) error {
	var mu sync.Mutex
	plans := map[string]*planned{} // of the hosts that answer
	shown := hosts.Each(ctx, f.Dial, f.Hosts, hosts.Time, func(ctx context.Context, host string, c api.Client) (*text.Listing, error) {
		e := f.Ender
		e.Client, e.UID, e.at = c, 0, " on "+host // the host decides what its user may end
		p, err := planOn(ctx, &e)
		mu.Lock()
		defer mu.Unlock()
		plans[host] = p
		if len(p.plans) == 0 {
			return nil, err
		}
		return text.Plans(p.plans, p.how, true), err
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
	case f.AllOrNone && len(missed) > 0:
		err := hosts.Print(f.Console, f.Format, shown)
		f.Console.Say("end: nothing was sent, because of %s (--all-or-none)", strings.Join(missed, ", "))
		return err
	case len(ready) > f.MaxHosts:
		return hosts.TooMany("end", len(ready), f.MaxHosts)
	case !f.Yes:
		if err := f.ask(shown, ready, plans); err != nil {
			return err
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

// ask shows the plans of all hosts, and returns an error unless the user agrees.
func (f *Fleet) ask(shown []text.HostAnswer, ready hosts.List, plans map[string]*planned) error {
	p := f.Console.Page(f.Console.Stderr, false)
	text.Hosts(shown).Text(p)
	sessions := 0
	for _, host := range ready {
		sessions += len(plans[host].plans)
	}
	return f.Console.Confirm("end", p, "End "+display.Count(sessions,
		"session")+" on "+display.Count(len(ready), "host")+"?")
}

// end ends what is planned, and returns each host's answer.
func (f *Fleet) end(ctx context.Context, ready hosts.List, plans map[string]*planned) []text.HostAnswer {
	grace := time.Duration(0)
	for _, p := range plans {
		grace = max(grace, p.grace)
	}
	return hosts.Waves(ctx, f.Dial, ready, hosts.Time+grace+f.Timeout, func(ctx context.Context, host string, c api.Client) (*text.Listing, error) {
		e := f.Ender
		e.Client = c
		return endOn(ctx, &e, plans[host])
	})
}

// planOn makes the plans of one host. The error names what cannot be ended; the rest is in the plans.
func planOn(ctx context.Context, e *Ender) (*planned, error) {
	targets, err := e.choose(ctx)
	if err != nil {
		return &planned{}, err
	}
	p := e.plan(ctx, targets)
	p.plans = nil
	for _, t := range targets {
		if t.err == nil && t.session.State != api.StateEnded {
			p.targets, p.plans = append(p.targets, t), append(p.plans, t.plan)
		}
	}
	return p, worstOf(errorsOf(targets))
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
	return cli.Errorf(worst, "%s", strings.Join(messages, "; "))
}

func endOn(ctx context.Context, e *Ender, p *planned) (*text.Listing, error) {
	e.begin(ctx, p.targets)
	for _, t := range p.targets {
		if t.err == nil && t.report.Verdict == "" {
			w := waiting{c: e.Client, id: t.report.Session, hurried: ctx, timeout: e.Timeout}
			t.report, t.err = w.report(ctx, p.grace)
		}
	}
	receipts := receiptsOf(p.targets)
	if len(receipts) == 0 {
		return nil, worstOf(errorsOf(p.targets))
	}
	return text.Receipts(receipts, true), worstOf(errorsOf(p.targets))
}
