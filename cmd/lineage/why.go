package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func (a *app) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why PID|:PORT|PATH",
		Short: "Say whose a process, a port or a file is, and how that is known",
		Long: `Show every step from a process to its session's root: who created it, when,
what the creator ran then, and what became of it; and the ports and locks that
it holds. PID@START, as "-o name" prints it, is safe against a PID that was
used again.

:PORT is whoever listens on it (:53/udp for UDP). PATH is whoever has that file
open or locked, or listens on that unix socket; a file whose name is a number
is named as ./NUMBER.`,
		Args: argsCount(1, 1, "PID, :PORT or PATH"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := question(args[0])
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		l, err := ask(cmd.Context(), c)
		if err != nil {
			return err
		}
		return a.print(format.value, l)
	}
	return cmd
}

var pidLike = regexp.MustCompile(`^[0-9]+(@.*)?$`)

// question makes of an argument what to ask the daemon.
func question(arg string) (func(context.Context, api.Client) (listing, error), error) {
	if port, ok := strings.CutPrefix(arg, ":"); ok {
		text, proto, _ := strings.Cut(port, "/")
		n, err := strconv.ParseUint(text, 10, 16)
		if proto == "" {
			proto = "tcp"
		}
		if err != nil || n == 0 || proto != "tcp" && proto != "udp" {
			return nil, usage("why %s: want :PORT, :PORT/tcp or :PORT/udp; a file of that name is ./%s", arg, arg)
		}
		return func(ctx context.Context, c api.Client) (listing, error) {
			h, err := c.WhyPort(ctx, proto, int(n))
			if err != nil {
				return listing{}, err
			}
			return holdersListing(h), nil
		}, nil
	}
	if ref, err := api.ParseRef(arg); err == nil {
		return func(ctx context.Context, c api.Client) (listing, error) {
			why, err := c.Why(ctx, ref.String())
			if err != nil {
				return listing{}, err
			}
			return whyListing(why), nil
		}, nil
	}
	if pidLike.MatchString(arg) || arg == "" {
		return nil, usage("why %s: not a process; name it as PID or PID@START", arg)
	}
	file, err := pathRef(arg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c api.Client) (listing, error) {
		h, err := c.WhyPath(ctx, file)
		if err != nil {
			return listing{}, err
		}
		return holdersListing(h), nil
	}, nil
}

// pathRef names a file as we see it: the daemon may see another one of that
// name, and is not to touch what we may not. One that is gone has its name.
func pathRef(arg string) (api.PathRef, error) {
	path, err := filepath.Abs(arg)
	if err != nil {
		return api.PathRef{}, fmt.Errorf("why %s: %w", arg, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f := api.PathRef{Path: path}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrPermission) {
		return f, &exitError{api.ExitDenied, fmt.Errorf("why %s: not permitted; run with sudo", arg)}
	}
	if err != nil {
		return f, nil
	}
	// The name of a unix socket says all: its file is nobody's to have open.
	if info.Mode()&os.ModeSocket == 0 {
		f.Device, f.Inode = fileID(info)
	}
	return f, nil
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
		first += display.Text(fmt.Sprintf("session %s, %s", strings.TrimSpace(s.ID+" "+s.Name), s.State))
	}
	switch {
	case proc.State != "" && proc.State != api.StateLive:
		first += ", " + display.Text(howEnded(proc))
	case why.Parent != nil:
		first += fmt.Sprintf(", parent now %s %s", refText(p, why.Parent.Ref), p.command(why.Parent))
	case proc.Parent != nil:
		first += ", parent now " + refText(p, *proc.Parent)
	}
	p.line("%s", p.paint(bold, first))
	writeHolds(p, why.Holds)
	for i := range why.Edges {
		p.line("  %s", edgeText(p, why.Session, &why.Edges[i]))
	}
	if b := why.Brokered; b != nil {
		p.line("  %s", display.Brokered(b, why.Session.ID))
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
		add("root of session %s%s", display.Text(s.ID), when)
	case e.Creator == nil:
		add("%s%s, its creator is older than the tracing", display.Text(e.Kind), when)
	default:
		creator := display.Command(e.Creator.Argv, e.Creator.Comm, false, p.limit())
		add("← %s%s by %s %s", display.Text(e.Kind), when, refText(p, e.Creator.Ref), creator)
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
