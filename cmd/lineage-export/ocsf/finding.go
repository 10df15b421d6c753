package ocsf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// callCommand is how many columns a command has in the finding of a call.
const callCommand = 60

// maxEvidences bounds the processes that a finding names.
const maxEvidences = 32

type rule struct{ uid, title, about string }

var (
	leftoversRule = rule{"leftovers", "Processes left behind", "Orphaned processes"}
	budgetRule    = rule{"budget", "Budget of a session crossed", "Resource limit"}
	degradedRule  = rule{"degraded", "lineage is degraded", "Sensor health"}
	breakerRule   = rule{"breaker", "Circuit breaker open", "Sensor health"}
	busyRule      = rule{"busy_call", "Busy processes of a tool call that is over", "Runaway processes"}
	crossingRule  = rule{"crossing", "Signal out of a guarded session", "Signals to other processes"}
	killedRule    = rule{"killed", "Process killed from outside", "Unexpected deaths"}
	delegatedRule = rule{"delegated", "Work of another daemon that was not found", "Unattributed work"}
)

// budgets are the reasons of an end that mean that a limit was crossed.
var budgets = map[string]string{
	"max_lifetime":  "its time limit",
	"max_processes": "its limit of processes",
	"max_rss":       "its limit of memory",
	"idle":          "its idle time",
}

// found are the findings of an end.
func (e *Encoder) found(r *follow.Record) []*event {
	all := append(e.leftovers(r), e.budget(r)...)
	for i := range r.Report.Delegated {
		all = append(all, e.delegated(r, &r.Report.Delegated[i])...)
	}
	return all
}

// find begins a finding. subject tells the findings of one rule apart.
func find(r *follow.Record, a activity, s severity, rule rule, message string, subject ...any) *event {
	key := append([]any{"finding", rule.uid, r.Host.ID, r.Boot}, subject...)
	uid := follow.DerivedID(key...)
	v := newEvent(r, a, s, follow.DerivedID("finding", r.ID, uid, a.id), rule.uid, message)
	v.FindingInfo = &findingInfo{
		UID: uid, Title: rule.title, Desc: message, Types: []string{rule.about}, CreatedTime: v.Time,
		Analytic: analytic{UID: rule.uid, Name: rule.title, TypeID: 1, Type: "Rule"},
	}
	v.status, v.IsAlert = statusOf(1, "New", ""), true
	if a.id == closed.id {
		v.status, v.IsAlert = statusOf(4, "Resolved", ""), false
	}
	return v
}

// leftovers is the finding of members that outlived the root and had to be signalled by an end.
func (e *Encoder) leftovers(r *follow.Record) []*event {
	left := slices.DeleteFunc(slices.Clone(r.Report.Processes), func(o api.Outcome) bool {
		return !o.Leftover || o.Outcome == api.OutcomeSelf
	})
	s := low
	if slices.ContainsFunc(left, func(o api.Outcome) bool { return o.Outcome == api.OutcomeLeft }) {
		s = high
	}
	return e.leftBehind(r, s, left, "ended now")
}

// present is the findings of members that are alive while the root is gone, and of work that was handed to others.
func (e *Encoder) present(r *follow.Record) []*event {
	var left []api.Outcome
	for _, o := range r.Orphans {
		if o.Why == api.WhyLeftover && !o.Kept {
			left = append(left, api.Outcome{Ref: o.Ref, Comm: o.Comm, Argv: o.Argv})
		}
	}
	all := e.leftBehind(r, medium, left, "still alive")
	for i := range r.Orphans {
		if b := r.Orphans[i].Delegated; b != nil {
			all = append(all, e.delegated(r, b)...)
		}
	}
	return all
}

func (e *Encoder) leftBehind(r *follow.Record, s severity, left []api.Outcome, now string) []*event {
	n := len(left)
	if n == 0 {
		return nil
	}
	v := find(r, created, s, leftoversRule, fmt.Sprintf("the root of %s exited and left %s behind, %s",
		sessionName(r), display.Count(n, "process", "processes"), now), r.Session.ID)
	v.Count, v.Metadata.IsTruncated = uint64(n), n > maxEvidences
	for _, o := range left[:min(n, maxEvidences)] {
		x := evidence{Process: e.evident(v, r, o.Ref, o.Comm, o.Argv)}
		if o.Outcome != "" {
			x.Data = map[string]string{"outcome": string(o.Outcome)}
		}
		v.Evidences = append(v.Evidences, x)
	}
	return []*event{v}
}

// budget is the finding of a session that ended over a limit, or would have, were the policy enforced.
func (e *Encoder) budget(r *follow.Record) (all []*event) {
	crossed := func(reason, what string) {
		limit, is := budgets[reason]
		if !is {
			return
		}
		v := find(r, created, medium, budgetRule,
			fmt.Sprintf("%s reached %s: %s", sessionName(r), limit, what),
			r.Session.ID, reason)
		v.Unmapped.Lineage.Why = reason
		if root := r.Session.Root; root != nil {
			v.Evidences = []evidence{{Process: e.evident(v, r, root.Ref, root.Comm, root.Argv)}}
		}
		all = append(all, v)
	}
	crossed(r.Report.EndReason, "it was ended")
	for _, reason := range r.Report.WouldEnd {
		if reason != r.Report.EndReason {
			crossed(reason, "the policy only reports it")
		}
	}
	return all
}

// delegated is the finding of work that a member asked another daemon for, and of which no
// process was found.
func (e *Encoder) delegated(r *follow.Record, b *api.Delegated) []*event {
	if b.State != "unattributed" {
		return nil
	}
	asked, at := api.Ref{}, ""
	if b.Asked != nil {
		asked = b.Asked.Ref
	}
	if b.Time != nil {
		at = b.Time.UTC().String()
	}
	v := find(r, created, medium, delegatedRule,
		fmt.Sprintf("%s asked %s for work, and no process of it was found",
			sessionName(r), display.Text(b.Broker)), r.Session.ID, b.Broker, asked, at)
	x := evidence{Data: map[string]string{"broker": b.Broker}}
	if b.Asked != nil {
		x.Actor = &actor{Process: e.evident(v, r, asked, b.Asked.Comm, b.Asked.Argv)}
	}
	v.Evidences = []evidence{x}
	return []*event{v}
}

// crossing is the finding of a signal that kills or stops, from a member to a process outside.
func (e *Encoder) crossing(r *follow.Record) []*event {
	x, p := r.Event.Crossing, r.Process()
	if x == nil || x.To == nil {
		return nil
	}
	message := fmt.Sprintf("%s%s: %s", named(p), ofSession(r), display.Crossing(x))
	v := find(r, created, medium, crossingRule, message, r.Session.ID, p.Ref, x.To.Ref, x.Signal)
	by, to := e.evident(v, r, p.Ref, p.Comm, p.Argv), e.evident(v, r, x.To.Ref, x.To.Comm, nil)
	what := map[string]string{"signal": x.Signal}
	if x.Refused {
		what["refused"] = "true"
	}
	v.Evidences = []evidence{{Process: to, Actor: &actor{Process: by}, Data: what}}
	return []*event{v}
}

// death is the finding of a member that the OOM killer killed, or a process outside of its session and of the one around it.
func (e *Encoder) death(r *follow.Record) []*event {
	p := r.Process()
	k := cmp.Or(p.Killer, &api.Sender{})
	by := cmp.Or(k.Process, &api.Process{})
	inside := by.Session != "" && (by.Session == r.Session.ID || by.Session == r.Session.Parent)
	if p.Signal == "" || k.Passed || k.Kind != "oom" && (by.PID == 0 || by.Ref == p.Ref || inside) {
		return nil
	}
	v := find(r, created, medium, killedRule, fmt.Sprintf("%s%s: %s", named(p),
		ofSession(r), display.HowEnded(p)),
		r.Session.ID, k.Kind, by.Ref, p.Signal)
	x := evidence{Process: e.evident(v, r, p.Ref, p.Comm, p.Argv),
		Data: map[string]string{"signal": p.Signal, "kind": k.Kind}}
	if by.PID != 0 {
		x.Actor = &actor{Process: e.evident(v, r, by.Ref, by.Comm, nil)}
	}
	v.Evidences = []evidence{x}
	return []*event{v}
}

// busy is the finding of processes that use the CPU long after the tool call that started them is over.
func (e *Encoder) busy(r *follow.Record) *event {
	c := r.Call
	message := fmt.Sprintf("%s: %s", sessionName(r), display.Left(c, r.Time, callCommand))
	v := find(r, created, medium, busyRule, message, r.Session.ID, c.Calls[0].Agent, c.Calls[0].ID)
	v.Count = uint64(c.Processes)
	v.Evidences = []evidence{{Data: map[string]string{"call": display.CallNames(c.Calls),
		"tool": c.Calls[0].Tool}}}
	return v
}

// health is the findings of a change of the daemon's status.
func health(r *follow.Record) (all []*event) {
	now, before := r.Status, r.Before
	if before == nil {
		before = &api.Status{Level: now.Level}
	}
	add := func(a activity, rule rule, message string, subject ...any) {
		s := high
		if a.id == closed.id {
			s = informational
		}
		v := find(r, a, s, rule, message, subject...)
		v.Unmapped.Lineage.Condition = &condition{Level: now.Level,
			Mode: now.Mode, Degraded: now.Degraded}
		if before.Level != now.Level {
			v.Unmapped.Lineage.Condition.Before = before.Level
		}
		all = append(all, v)
	}
	switch {
	case len(now.Degraded) > 0 && !slices.Equal(now.Degraded, before.Degraded):
		add(created, degradedRule, "lineage is degraded: "+
			display.Text(strings.Join(now.Degraded, "; ")), "degraded")
	case len(now.Degraded) == 0 && len(before.Degraded) > 0:
		add(closed, degradedRule, "lineage is no longer degraded", "degraded")
	}
	switch {
	case now.Level < before.Level:
		add(created, degradedRule, fmt.Sprintf("the guarantee level fell from %d to %d",
			before.Level, now.Level), "level")
	case now.Level > before.Level:
		add(closed, degradedRule, fmt.Sprintf("the guarantee level rose from %d to %d",
			before.Level, now.Level), "level")
	}
	switch {
	case now.Breaker.Open && !before.Breaker.Open:
		add(created, breakerRule, display.Breaker(now.Breaker)+
			": none of their sessions is ended automatically",
			"breaker")
	case !now.Breaker.Open && before.Breaker.Open:
		add(closed, breakerRule, "the circuit breaker is closed", "breaker")
	}
	return all
}
