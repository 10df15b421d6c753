package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) adoptCommand() *cobra.Command {
	var req api.NewSession
	var grace *time.Duration
	var lifetime, idle time.Duration
	onExit := cli.Choice{Value: "end", Words: []string{"end", "report"}}
	cmd := &cobra.Command{
		Use:   "adopt PID",
		Short: "Make a running process and its descendants a session",
		Long: `Make a session of a running process, with all its present descendants and
everything that they will start. Descendants are found by the kernel's parents,
and no fork is missed meanwhile. A user other than root adopts only processes of
that user: others are named and left out, with their descendants.

Descendants that were orphaned earlier are searched for, and some seconds later
shown in a related session, which does not end with this one: see "lineage ls
--left".

The session ends like any other: when the process exits, with "lineage end", or
by a limit. The PID of a member makes a session nested in its own.

PID@START, which "-o name" prints, is safe against reused PIDs.`,
		Example: `  sudo lineage adopt 4130 --name build
  sudo lineage adopt 4130 --idle 1h --on-exit report
  lineage ls --outside -o name | xargs -n1 sudo lineage adopt`,
		Args:              cli.Args(1, 1, "PID"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&req.Name, "name", "", "the session's `NAME`")
	cli.Grace(f, &grace, "the policy's, 5s")
	f.DurationVar(&lifetime, "max-lifetime", 0, "end the session after this `TIME`")
	f.DurationVar(&idle, "idle", 0, "end the session after this `TIME` with no new process and under 1s of CPU")
	f.Var(&onExit, "on-exit", "what to do with leftovers when the process exits: `ACTION`, end or report")
	limits := limitFlags(f)
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := api.ParseRef(args[0])
		if err != nil {
			return cli.Usage("adopt: %w", cli.Invalid("PID", args[0], "PID or PID@START"))
		}
		if grace != nil {
			req.GraceMS = new(grace.Milliseconds())
		}
		for name, d := range map[string]time.Duration{"max-lifetime": lifetime, "idle": idle} {
			if cmd.Flags().Changed(name) && d < time.Millisecond {
				return cli.Usage("adopt: %w", cli.Invalid("--"+name, d, "at least 1ms"))
			}
		}
		req.Root, req.Adopt, req.OnRootExit = ref, true, onExit.Value
		req.Limits = limits()
		req.MaxLifetimeMS, req.IdleMS = lifetime.Milliseconds(), idle.Milliseconds()
		return a.with(cmd.Context(), func(c api.Client) error {
			s, err := c.Create(cmd.Context(), req)
			if err != nil {
				return err
			}
			return a.printOpened(cmd, format.Value, s, "adopted")
		})
	}
	return cmd
}

func (a *app) keepCommand() *cobra.Command {
	var req api.KeepRequest
	var until string
	cmd := &cobra.Command{
		Use:   "keep PID|:PORT...",
		Short: "Move processes to a session that outlives their own",
		Long: `Move members of a session, with their descendants, to a new, kept session. It
does not end with their former session, but at the given time. It is listed like
any other, with the reason. Without --name it has the name of the first process.

A process cannot keep itself: run the command from outside the session. The
root of a session cannot be kept.`,
		Example: `  lineage keep 4130 --name preview --reason "dev server" --until 8h
  lineage keep :3000 4131 --reason cache --until 2027-06-30  # what has the port`,
		Args:              cli.Args(1, 256, "PID or :PORT"),
		ValidArgsFunction: a.completeMember,
	}
	f := cmd.Flags()
	f.StringVar(&req.Name, "name", "", "the kept session's `NAME`")
	f.StringVar(&req.Reason, "reason", "", "`TEXT`, for people who find it later (required)")
	f.StringVar(&until, "until", "", "`TIME` at which it ends: after a duration (8h), at the end of a date, or at an RFC 3339 time (required)")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		for _, name := range []string{"reason", "until"} {
			if !cmd.Flags().Changed(name) {
				return cli.Usage("keep: --%s is missing; see \"lineage keep --help\"", name)
			}
		}
		var ok bool
		if req.Until, ok = moment(until, time.Now()); !ok {
			return cli.Usage("keep: %w", cli.Invalid("--until", until,
				"a duration such as 8h, a date such as 2027-06-30, or a time in RFC 3339"))
		}
		return a.with(ctx, func(c api.Client) error {
			for _, arg := range args {
				refs, err := api.Processes(ctx, c, arg)
				if err != nil {
					return err
				}
				req.Refs = append(req.Refs, refs...)
			}
			s, err := c.Keep(ctx, req)
			if err != nil {
				return err
			}
			return a.printOpened(cmd, format.Value, s, "kept")
		})
	}
	return cmd
}

// moment is a future time: a duration from now, the end of a day, or a time.
func moment(text string, now time.Time) (time.Time, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), d > 0
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		day = day.AddDate(0, 0, 1)
		return day, inJSON(day)
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil && inJSON(t)
}

// inJSON reports whether a time, in UTC, can be in a document.
func inJSON(t time.Time) bool {
	_, err := t.UTC().MarshalJSON()
	return err == nil
}

// printOpened prints a session that was made of running processes.
func (a *app) printOpened(cmd *cobra.Command, format string, s *api.Session, how string) error {
	for _, w := range s.Warnings {
		a.Say("%s: %s", cmd.Name(), w)
	}
	return a.Print(format, &text.Listing{
		Doc: s, Items: []any{s}, Names: []string{s.ID},
		Text: func(p *text.Page) {
			name := s.ID
			if s.Name != "" {
				name += " (" + display.Text(s.Name) + ")"
			}
			line := fmt.Sprintf("session %s: %s %s", name, display.Count(s.Live, "process"), how)
			if s.Until != nil {
				line += " until " + s.Until.Local().Format(time.DateTime)
			}
			p.Line("%s", line)
			if s.Limits != nil {
				p.Line("%s", display.Account(s.Limits, s.Account))
			}
		},
	})
}
