package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

var eventTypes = []string{"fork", "exec", "exit", "reparent", "reaped", "session", "lost"}

func (a *app) eventsCommand() *cobra.Command {
	var q api.EventsQuery
	var since, until string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happens, live: one line or one JSON object an event",
		Long: `Show births, execs, exits and new parents of processes as they happen, until the
session is over or Ctrl-C; --since adds what happened before, and --until 0s
stops where that ends. "lineage events -o jsonl --snapshot > FILE" makes a
recording, which "lineage tree -i FILE" renders anywhere. As a stream has no
end, "-o json" is the same as "-o jsonl".`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&q.Session, "session", "", "only of this `session`, by id or name")
	f.StringSliceVar(&q.Types, "type", nil, "only of these `types`: "+strings.Join(eventTypes, ", "))
	f.BoolVar(&q.Snapshot, "snapshot", false, "the present processes first")
	rangeFlags(cmd, &since, &until, "what happened")
	cmd.RegisterFlagCompletionFunc("session", a.completeSession("live"))
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(eventTypes, cobra.ShellCompDirectiveNoFileComp))
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if q.Since, q.Until, err = timeRange("events", since, until, a.now()); err != nil {
			return err
		}
		for _, t := range q.Types {
			if !slices.Contains(eventTypes, t) {
				return usage("events: no type %q; want one of %s", t, strings.Join(eventTypes, ", "))
			}
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := a.untilInterrupt(cmd.Context())
		defer stop()
		err = a.streamEvents(ctx, c, q, format.value)
		if ctx.Err() != nil {
			return nil // the caller has seen enough
		}
		return err
	}
	return cmd
}

// streamEvents writes events until the stream ends. A broken stream is taken
// up again where it broke, as long as that makes progress.
func (a *app) streamEvents(ctx context.Context, c api.Client, q api.EventsQuery, format string) error {
	p := a.page(a.stdout, format == "wide")
	enc := jsonEncoder(p.w)
	for {
		from := q.From
		err := c.Events(ctx, q, func(ev *api.Event) error {
			if ev.Seq != 0 {
				q.From = uint64(ev.Seq) + 1
			}
			if err := a.writeEvent(p, enc, format, ev); err != nil {
				return err
			}
			return p.flush()
		})
		if !errors.Is(err, api.ErrBroken) || q.From == from {
			return err
		}
		a.say("%v: taking it up again at event %d", api.ErrBroken, q.From)
		q.Snapshot = false
	}
}

func (a *app) writeEvent(p *page, enc interface{ Encode(any) error }, format string, ev *api.Event) error {
	if ev.Kind == "heartbeat" {
		return nil
	}
	switch format {
	case "json", "jsonl":
		ev.Kind = cmp.Or(ev.Kind, "event")
		return enc.Encode(ev)
	case "name":
		if ev.Process != nil {
			p.line("%s", ev.Process.Ref)
		}
		return nil
	}
	switch ev.Kind {
	case "recording":
	case "end":
		if ev.Reason != "session_over" && ev.Reason != "until" {
			a.say("events: the daemon ended the stream: %s", ev.Reason)
		}
	case "process":
		p.line("%s", eventText(p, "present", ev))
	default:
		p.line("%s", eventText(p, ev.Type, ev))
	}
	return nil
}

// eventText is an event on one line: time, type, session, process, what.
func eventText(p *page, kind string, ev *api.Event) string {
	when := ""
	if ev.Time != nil {
		when = ev.Time.In(p.now.Location()).Format("15:04:05.000")
		if clock := p.clock(ev.Time); len(clock) > len(time.TimeOnly) { // of another day
			when = clock[:len(time.DateOnly)+1] + when
		}
	} else if ev.TimeNS != 0 {
		when = fmt.Sprintf("%.3f", time.Duration(ev.TimeNS).Seconds())
	}
	session := ev.Session
	if pr := ev.Process; pr != nil {
		session = cmp.Or(session, pr.Session)
	}
	parts := []string{fmt.Sprintf("%-12s  %-8s  %-6s", when, display.Text(kind), display.Text(cmp.Or(session, "-")))}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	pr := ev.Process
	if pr != nil {
		add("%s", strings.TrimSuffix(refText(p, pr.Ref)+" "+p.command(pr), " ?")) // reaped: nobody knows the name any more
	}
	switch ev.Type {
	case "fork":
		if pr != nil && pr.Creator != nil {
			add("by %s", refText(p, *pr.Creator))
			if pr.Parent != nil && *pr.Parent != *pr.Creator {
				add("parent %s", refText(p, *pr.Parent))
			}
		}
	case "exit":
		if pr != nil {
			add("%s", display.Text(howEnded(pr)))
		}
	case "reparent":
		if ev.From != nil {
			add("from %s", refText(p, *ev.From))
		}
		if ev.To != nil {
			add("to %s", refText(p, *ev.To))
		}
	case "session":
		add("%s", display.Text(strings.TrimSpace(string(ev.State)+" "+ev.Reason)))
	case "lost":
		what := "what happened before is not known"
		if ev.Count > 0 {
			what = count(int(ev.Count), "event", "events")
		}
		if ev.SinceNS != 0 && ev.UntilNS >= ev.SinceNS {
			what += " in " + time.Duration(ev.UntilNS-ev.SinceNS).Round(time.Millisecond).String()
		}
		add("%s, %s", what, display.Text(ev.Where))
	}
	line := strings.Join(parts, "  ")
	if p.width > 0 && !p.wide {
		line = fit(line, p.width)
	}
	return line
}
