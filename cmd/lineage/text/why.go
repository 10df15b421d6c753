package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// WhyDocument is the document of `why PID -o json`.
type WhyDocument struct {
	api.Why
	// Ancestors are the ancestors of a process outside any session, its parent first.
	Ancestors []api.Process `json:"ancestors,omitempty"`
	// Owns are the live sessions whose owner is the process.
	Owns []api.Session `json:"owns,omitempty"`
}

// holdersDocument is the document of `why :PORT -o json`.
type holdersDocument struct {
	api.Holders
	Items []WhyDocument `json:"items"` // one for each process
}

// Why shows which session a process belongs to, and why.
func Why(why *WhyDocument) *Listing {
	why.Head = api.NewHead("why")
	l := &Listing{Doc: why, Text: func(p *Page) {
		what := fmt.Sprintf("%s %s", Ref(p, why.Process.Ref), display.Name(&why.Process))
		writeWhy(p, &why.Why, what)
		if x := why.Other; x != nil {
			p.Wrap(2, fmt.Sprintf("another process with this PID: %s %s, in no session, started %s, %s %s ago",
				x.Ref, display.Name(x), p.clock(x.Started), display.HowEnded(x), p.since(x.Killer.Time)))
		}
		writeOutside(p, why)
		hintEnd(p, []api.Why{why.Why})
	}, Names: []string{why.Process.Ref.String()}}
	for _, e := range why.Edges {
		l.Items = append(l.Items, e)
		if e.Creator != nil {
			l.Names = append(l.Names, e.Creator.Ref.String())
		}
	}
	if len(why.Edges) == 0 {
		pr := why.Process
		pr.Head = api.Head{Kind: "process"}
		l.Items = []any{pr}
	}
	return l
}

// writeWhy shows one process: what it is, what started it as it says, the steps from its session's root to it, what
// it holds.
func writeWhy(p *Page, why *api.Why, what string) {
	p.Line("%s", p.paint(bold, what+" — "+membership(why.Session)))
	if claimed := claims(p, &why.Process); claimed != "" {
		p.Wrap(2, claimed)
	}
	if why.Session != nil && len(why.Edges) > 0 {
		writeSteps(p, why.Edges)
	}
	p.Wrap(2, facts(p, why))
	writeHolds(p, why.Holds)
	if b := why.Delegated; b != nil && why.Session != nil {
		p.Wrap(2, display.Delegated(b, why.Session.ID))
	}
}

func membership(s *api.Session) string {
	if s == nil {
		return "in no session"
	}
	name := s.ID
	if s.Name != "" {
		name = fmt.Sprintf("%s (%s)", s.Name, s.ID)
	}
	return display.Text(fmt.Sprintf("session %s, %s", name, display.State(s)))
}

// roomForTimes is the least width of a terminal that shows more than the commands of the steps.
const roomForTimes = 60

// writeSteps shows how the process was created, from the root of its session down to it.
func writeSteps(p *Page, edges []api.Edge) {
	t := table{first: true, ragged: !p.cuts()}
	chain := display.Chain(edges)
	for depth := range chain {
		e := &chain[depth]
		fate, color := "", ""
		if depth < len(chain)-1 {
			if fate = display.Gone(&e.Child, p.clock); fate != "" {
				color = dim
			}
		}
		row := []string{
			fmt.Sprintf("  %s%s  %s", display.Indent(depth, maxIndent),
				Ref(p, e.Child.Ref), p.Command(&e.Child)),
			display.Text(e.Kind),
			p.clock(e.Time),
			fate,
		}
		if p.cuts() && p.Width < roomForTimes {
			row = row[:1]
		}
		t.paintedRow([]string{color, color, color, color}[:len(row)], row...)
	}
	t.write(p)
	for i := range chain {
		for _, note := range display.StepNotes(&chain[i], func(r api.Ref) string { return Ref(p, r) }, p.clock) {
			p.Wrap(2, note)
		}
	}
}

func facts(p *Page, why *api.Why) string {
	pr := &why.Process
	var all []string
	switch {
	case pr.State != "" && pr.State != api.StateLive:
		all = append(all, display.HowEnded(pr))
	case why.Parent != nil:
		all = append(all, fmt.Sprintf("parent now %s %s", Ref(p, why.Parent.Ref),
			display.Name(why.Parent)))
	case pr.Parent != nil:
		all = append(all, "parent now "+Ref(p, *pr.Parent))
	}
	if pr.Started != nil {
		all = append(all, fmt.Sprintf("started %s (%s ago)", p.clock(pr.Started), p.since(pr.Started)))
	}
	if pr.Stopped != nil {
		all = append(all, display.Stopped(pr))
	}
	if c := pr.Container; c != nil && c.Runtime == "docker" && c.Name == "" {
		all = append(all, "container "+display.Container(c)+
			": its record cannot be read, no rule for containers applies")
	}
	if pr.Evidence != nil && why.Session != nil {
		all = append(all, "evidence: "+display.Evidence(pr.Evidence))
	}
	return strings.Join(all, " · ")
}

func claims(p *Page, pr *api.Process) string {
	var all []string
	if len(pr.Calls) > 0 {
		started := "started by " + display.Calls(pr.Calls)
		if ended := pr.Calls[0].Ended; len(pr.Calls) == 1 && ended != nil {
			started += ", which ended " + p.since(ended) + " ago"
		}
		all = append(all, started)
	}
	if pr.Trace != nil {
		all = append(all, display.Trace(pr.Trace))
	}
	return strings.Join(all, " · ")
}

// writeOutside shows what is known of a process that is in no session.
func writeOutside(p *Page, why *WhyDocument) {
	for i := range why.Owns {
		s := &why.Owns[i]
		p.Line("  runs %s", membership(s))
	}
	if len(why.Ancestors) == 0 {
		return
	}
	t := table{first: true, ragged: !p.cuts()}
	kind := "parent"
	for i, pr := range slices.Backward(append([]api.Process{why.Process}, why.Ancestors...)) {
		if i == 0 {
			kind = ""
		}
		command := p.Command(&pr)
		if !p.Wide && pr.Ref != why.Process.Ref {
			command = display.Brief(pr.Argv, pr.Comm, pr.ArgvTruncated, roomForTimes)
		}
		t.row(fmt.Sprintf("  %s%s  %s", display.Indent(len(t.rows), maxIndent), Ref(p, pr.Ref), command),
			kind, p.clock(pr.Started))
	}
	t.write(p)
	p.Line("These are its present parents, as in ps. The process that started it may have exited.")
	if len(why.Owns) == 0 && !p.Wide {
		p.Line("To make a session of it and of what it started: lineage adopt %d, or a parent's PID",
			why.Process.PID)
	}
}

// hintEnd says how to end what was shown: the process, if it is one and may end alone, and the
// sessions.
func hintEnd(p *Page, items []api.Why) {
	var names []string
	var alone []int
	for i := range items {
		s := items[i].Session
		if s == nil || s.State == api.StateEnded {
			continue
		}
		if name := display.Text(cmp.Or(s.Name, s.ID)); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if pr := &items[i].Process; pr.State == api.StateLive && !slices.Contains(alone,
			pr.PID) && (s.Root == nil || s.Root.Ref != pr.Ref) {
			alone = append(alone, pr.PID)
		}
	}
	if len(names) == 0 || p.Wide {
		return
	}
	if len(alone) == 1 && p.Host == "" {
		p.Wrap(0, fmt.Sprintf("To end it and what it started: lineage end %d --branch", alone[0]))
	}
	p.Line("To end the session: lineage end %s    (-o wide: full command lines)",
		strings.Join(names, " ")+p.there())
}

// Ref names a process: exactly on a wide page, else by its PID.
func Ref(p *Page, r api.Ref) string {
	return (&display.Names{Exact: p.Wide}).PID(r)
}
