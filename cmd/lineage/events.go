package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/flags"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) eventsCommand() *cobra.Command {
	var q api.EventsQuery
	var since, until string
	var types []string
	known := api.TypeNames(api.EventTypes)
	var follow bool
	var where ending.Where
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show events live, one line or one JSON object each",
		Long: `Show births, execs, exits and new parents of processes, and the TCP ports that
they open and close, as they happen, until the session is over or Ctrl-C. With
--since, show what has happened since then and exit; with --follow, continue
with what happens.

As a stream has no end, "-o json" is the same as "-o jsonl".`,
		Example: `  lineage events --session build --type exec    # what it runs, live
  lineage events --since 20m                    # the last 20 minutes
  lineage events --since 20m --follow           # and what happens from now on`,
		Args:              flags.Args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&q.Session, "session", "", "only of this `SESSION`, by id or name")
	where.Flags(f, "only of processes")
	f.StringSliceVar(&types, "type", nil, "only of `TYPE,...`: "+strings.Join(known, ", "))
	f.BoolVarP(&follow, "follow", "f", false, "with --since: continue with what happens from now on")
	rangeFlags(cmd, &since, &until, "what happened")
	cmd.RegisterFlagCompletionFunc("session", a.completeSession("live"))
	cmd.RegisterFlagCompletionFunc("type", flags.OfList(known))
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if q.Since, q.Until, err = timeRange("events", since, until, a.Now()); err != nil {
			return err
		}
		switch {
		case follow && until != "":
			return exit.Usage("events: --follow has no end; give only one of --follow and --until")
		case since != "" && until == "" && !follow:
			q.Until = a.Now()
		}
		for _, t := range types {
			if !slices.Contains(known, t) {
				return exit.Usage("events: %w", exit.Invalid("--type", t, "one of "+strings.Join(known, ", ")))
			}
			q.Types = append(q.Types, api.EventType(t))
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := a.UntilInterrupt(cmd.Context())
		defer stop()
		err = a.streamEvents(ctx, c, q, where, format.Value)
		if ctx.Err() != nil {
			return nil // the user interrupted
		}
		return err
	}
	return cmd
}

// streamEvents writes events until the stream ends. A broken stream is resumed where it
// broke, as long as there is progress.
func (a *app) streamEvents(ctx context.Context, c api.Client, q api.EventsQuery, where ending.Where, format string) error {
	p := a.Page(a.Stdout, format == "wide")
	for {
		from := q.From
		err := c.Events(ctx, q, func(ev *api.Event) error {
			if ev.Seq != 0 {
				q.From = uint64(ev.Seq) + 1
			}
			if ev.Process != nil && !where.Holds(ev.Process.Container) {
				return nil
			}
			if err := a.writeEvent(p, format, ev); err != nil {
				return err
			}
			return p.Flush()
		})
		if !errors.Is(err, api.ErrBroken) || q.From == from {
			return err
		}
		a.Say("%v: resuming at event %d", api.ErrBroken, q.From)
	}
}

func (a *app) writeEvent(p *text.Page, format string, ev *api.Event) error {
	if ev.Kind == "heartbeat" {
		return nil
	}
	switch format {
	case "json", "jsonl":
		ev.Kind = cmp.Or(ev.Kind, "event")
		return p.JSON().Encode(ev)
	case "name":
		if ev.Process != nil {
			p.Line("%s", ev.Process.Ref)
		}
		return nil
	}
	switch ev.Kind {
	case "end":
		if ev.Reason != "session_over" && ev.Reason != "until" {
			a.Say("events: the daemon ended the stream: %s", ev.Reason)
		}
	default:
		p.Line("%s", text.Event(p, ev))
	}
	return nil
}
