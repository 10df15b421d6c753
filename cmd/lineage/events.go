package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) eventsCommand() *cobra.Command {
	var q api.EventsQuery
	var since, until string
	var types []string
	known := api.TypeNames(api.EventTypes)
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [SESSION...]",
		Short: "Show events live, one line or one JSON object each",
		Long: `Show births, execs, exits and new parents of processes, and the TCP ports that
they open and close, as they happen, until the session is over or Ctrl-C. With
--since, show what has happened since then and exit; with --follow, continue
with what happens.

As a stream has no end, "-o json" is the same as "-o jsonl".`,
		Example: `  lineage events build --type exec              # what it runs, live
  lineage events --since 20m                    # the last 20 minutes
  lineage events --since 20m --follow           # and what happens from now on`,
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	sel := cli.Selection(cmd, a.host.euid)
	f.StringSliceVar(&types, "type", nil, "only of `TYPE,...`: "+strings.Join(known, ", "))
	f.BoolVarP(&follow, "follow", "f", false, "with --since: continue with what happens from now on")
	rangeFlags(cmd, &since, &until, "what happened")
	cmd.RegisterFlagCompletionFunc("type", cli.CompleteList(known))
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if q.Since, q.Until, err = timeRange("events", since, until, a.Now()); err != nil {
			return err
		}
		switch {
		case follow && until != "":
			return cli.Usage("events: --follow has no end; give only one of --follow and --until")
		case since != "" && until == "" && !follow:
			q.Until = a.Now()
		}
		for _, t := range types {
			if !slices.Contains(known, t) {
				return cli.Usage("events: %w", cli.Invalid("--type", t, "one of "+strings.Join(known, ", ")))
			}
			q.Types = append(q.Types, api.EventType(t))
		}
		return a.with(cmd.Context(), func(c api.Client) error {
			ctx, stop := a.UntilInterrupt(cmd.Context())
			defer stop()
			wanted, err := wantedEvents(ctx, c, &q, sel)
			if err != nil {
				return err
			}
			err = a.streamEvents(ctx, c, q, wanted, format.Value)
			if ctx.Err() != nil {
				return nil // the user interrupted
			}
			return err
		})
	}
	return cmd
}

// wantedEvents selects events: the daemon, those of one session; else we, those of sessions that are meant.
func wantedEvents(ctx context.Context, c api.Client, q *api.EventsQuery,
	sel *api.Selection) (func(*api.Event) bool, error) {
	sel = sel.OrAll()
	found, err := sel.Resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{"": true}
	for _, x := range found.Choices {
		if known[x.Session.ID] = true; x.Named && sel.One() {
			q.Session = x.Session.ID
		}
	}
	return func(ev *api.Event) bool {
		if _, asked := known[ev.Session]; !asked && !sel.All { // it is new, or over
			s, err := c.Session(ctx, ev.Session)
			known[ev.Session] = err == nil && sel.Matches(s)
		}
		return sel.All || known[ev.Session]
	}, nil
}

// streamEvents writes events until the stream ends. A broken stream is resumed where it
// broke, as long as there is progress.
func (a *app) streamEvents(ctx context.Context, c api.Client, q api.EventsQuery,
	wanted func(*api.Event) bool, format string) error {
	p := a.Page(a.Stdout, format == "wide")
	for {
		from := q.From
		err := c.Events(ctx, q, func(ev *api.Event) error {
			if ev.Seq != 0 {
				q.From = uint64(ev.Seq) + 1
			}
			if !wanted(ev) {
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
