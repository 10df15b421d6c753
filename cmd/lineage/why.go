package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/plain"
)

func (a *app) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why PID",
		Short: "Say whose a process is, and how that is known",
		Long: `Show every step from a process to its session's root: who created it, when,
what the creator ran then, and what became of it. PID@START, as "-o name"
prints it, is safe against a PID that was used again.`,
		Args:              argsCount(1, 1, "PID"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := api.ParseRef(args[0])
		if err != nil {
			if strings.ContainsAny(args[0][:min(1, len(args[0]))], ":/.") {
				return usage("why %s: this version answers for processes only, not for ports and files; name a PID", args[0])
			}
			return usage("why %s: not a process; name it as PID or PID@START", args[0])
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		why, err := c.Why(cmd.Context(), ref.String())
		if err != nil {
			return err
		}
		return a.print(format.value, whyListing(why))
	}
	return cmd
}

func whyListing(why *api.Why) listing {
	why.Head = head("why")
	l := listing{doc: why, text: func(p *page) { writeWhy(p, why) }, names: []string{why.Process.Ref.String()}}
	for _, e := range why.Edges {
		l.items = append(l.items, e)
		if e.Creator != nil {
			l.names = append(l.names, e.Creator.Ref.String())
		}
	}
	if len(why.Edges) == 0 {
		p := why.Process
		p.Head = api.Head{Kind: "process"}
		l.items = []any{p}
	}
	return l
}

func writeWhy(p *page, why *api.Why) {
	proc := &why.Process
	first := fmt.Sprintf("%s %s: ", refText(p, proc.Ref), p.command(proc))
	if why.Session == nil {
		first += "of no session"
	} else {
		s := why.Session
		first += plain.Text(fmt.Sprintf("session %s, %s", strings.TrimSpace(s.ID+" "+s.Name), s.State))
	}
	switch {
	case proc.State != "" && proc.State != "live":
		first += ", " + plain.Text(howEnded(proc))
	case why.Parent != nil:
		first += fmt.Sprintf(", parent now %s %s", refText(p, why.Parent.Ref), p.command(why.Parent))
	case proc.Parent != nil:
		first += ", parent now " + refText(p, *proc.Parent)
	}
	p.line("%s", p.paint(bold, first))
	for i := range why.Edges {
		p.line("  %s", edgeText(p, why.Session, &why.Edges[i]))
	}
}

// edgeText is one step on one line.
func edgeText(p *page, s *api.Session, e *api.Edge) string {
	parts := []string{fmt.Sprintf("%s %s", refText(p, e.Child.Ref), p.command(&e.Child))}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	when := ""
	if e.Time != nil {
		when = " at " + p.clock(e.Time)
	}
	switch {
	case e.Kind == "root" && s != nil:
		add("root of session %s%s", plain.Text(s.ID), when)
	case e.Creator == nil:
		add("%s%s, its creator is older than the tracing", plain.Text(e.Kind), when)
	default:
		creator := command(e.Creator.Argv, e.Creator.Comm, false, p.limit())
		add("← %s%s by %s %s", plain.Text(e.Kind), when, refText(p, e.Creator.Ref), creator)
		switch {
		case e.Creator.Alive:
			add("(alive)")
		case e.Creator.Exited != nil:
			add("(exited at %s)", p.clock(e.Creator.Exited))
		default:
			add("(exited)")
		}
	}
	add("evidence %s, %s", plain.Text(or(sourced(e.Evidence), "none")), plain.Text(or(e.Evidence.Confidence, "strong")))
	for _, r := range e.Reparented {
		move := "reparented"
		if r.Time != nil {
			move += " at " + p.clock(r.Time)
		}
		if r.From != nil {
			move += " from " + refText(p, *r.From)
		}
		if r.To != nil {
			move += " to " + refText(p, *r.To)
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

// refText names a process: exactly on a wide page, else by its PID.
func refText(p *page, r api.Ref) string {
	if p.wide {
		return r.String()
	}
	return fmt.Sprint(r.PID)
}
