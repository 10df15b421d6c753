package text

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Why shows whose a process is.
func Why(why *api.Why) Listing {
	why.Head = Head("why")
	l := Listing{Doc: why, Text: func(p *Page) { writeWhy(p, why) }, Names: []string{why.Process.Ref.String()}}
	for _, e := range why.Edges {
		l.Items = append(l.Items, e)
		if e.Creator != nil {
			l.Names = append(l.Names, e.Creator.Ref.String())
		}
	}
	if len(why.Edges) == 0 {
		p := why.Process
		p.Head = api.Head{Kind: "process"}
		l.Items = []any{p}
	}
	return l
}

func writeWhy(p *Page, why *api.Why) {
	proc := &why.Process
	first := fmt.Sprintf("%s %s: ", Ref(p, proc.Ref), p.Command(proc))
	if why.Session == nil {
		first += "of no session"
	} else {
		s := why.Session
		first += display.Text(fmt.Sprintf("session %s, %s", strings.TrimSpace(s.ID+" "+s.Name), s.State))
	}
	switch {
	case proc.State != "" && proc.State != api.StateLive:
		first += ", " + display.Text(howEnded(proc))
	case why.Parent != nil:
		first += fmt.Sprintf(", parent now %s %s", Ref(p, why.Parent.Ref), p.Command(why.Parent))
	case proc.Parent != nil:
		first += ", parent now " + Ref(p, *proc.Parent)
	}
	p.Line("%s", p.paint(bold, first))
	writeHolds(p, why.Holds)
	for i := range why.Edges {
		p.Line("  %s", edgeText(p, why.Session, &why.Edges[i]))
	}
	if b := why.Brokered; b != nil {
		p.Line("  %s", display.Brokered(b, why.Session.ID))
	}
}

// edgeText is one step on one line.
func edgeText(p *Page, s *api.Session, e *api.Edge) string {
	parts := []string{fmt.Sprintf("%s %s", Ref(p, e.Child.Ref), p.Command(&e.Child))}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	when := ""
	if e.Time != nil {
		when = " at " + p.clock(e.Time)
	}
	switch {
	case e.Kind == "root" && s != nil:
		add("root of session %s%s", display.Text(s.ID), when)
	case e.Creator == nil:
		add("%s%s, its creator is older than the tracing", display.Text(e.Kind), when)
	default:
		creator := display.Command(e.Creator.Argv, e.Creator.Comm, false, p.limit())
		add("← %s%s by %s %s", display.Text(e.Kind), when, Ref(p, e.Creator.Ref), creator)
		switch {
		case e.Creator.Alive:
			add("(alive)")
		case e.Creator.Exited != nil:
			add("(exited at %s)", p.clock(e.Creator.Exited))
		default:
			add("(exited)")
		}
	}
	add("evidence %s, %s", display.Text(cmp.Or(sourced(e.Evidence), "none")), display.Text(cmp.Or(e.Evidence.Confidence, "strong")))
	for _, r := range e.Reparented {
		move := "reparented"
		if r.Time != nil {
			move += " at " + p.clock(r.Time)
		}
		if r.From != nil {
			move += " from " + Ref(p, *r.From)
		}
		if r.To != nil {
			move += " to " + Ref(p, *r.To)
		}
		add("%s", move)
	}
	return strings.Join(parts, "  ")
}

func sourced(e api.Evidence) string {
	if e.Source == "" {
		return e.Kind
	}
	return e.Kind + " (" + e.Source + ")"
}

// Ref names a process: exactly on a wide page, else by its PID.
func Ref(p *Page, r api.Ref) string {
	if p.Wide {
		return r.String()
	}
	return fmt.Sprint(r.PID)
}
