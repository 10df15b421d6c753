package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

const endLong = `End sessions: SIGTERM to every member, SIGKILL when the grace is over, and
SIGKILL to every process that is born after that. Returns when the kernel counts
no live member, with a receipt; exits with 6 if one is left. Ctrl-C shows the
state, and the second one kills at once.

--dry-run shows what would be signalled and why. --if-plan takes the token that
it prints, and ends only that: if a process is new, nothing is sent. --branch
ends a process and all that it started, --call what a tool call has left.

With -H sessions with these names end on many hosts, after one question: on one,
on ten more, then on the others, unless something is left on a host. What --sign
makes is valid for five minutes, on its hosts, once on each.`

func (a *app) endCommand() *cobra.Command {
	var o ending.Options
	cmd := &cobra.Command{
		Use:   "end SESSION... | --all",
		Short: "End sessions, or a process with everything that it ever started",
		Long:  endLong,
		Example: `  lineage end build :3000            # shows what will be ended, and asks
  lineage end 'nightly-*' --idle 1h  # those that do nothing
  lineage end 4130@36995259200030 --branch --dry-run
  lineage end claude --sign ~/.ssh/id_ed25519.pub --reason "case 7" -H web1`,
		ValidArgsFunction: a.completeSession("live"),
	}
	sel := cli.Selection(cmd, a.host.euid)
	o.Flags(cmd.Flags())
	var signs ending.SigningFlags
	signs.Add(cmd.Flags())
	var from string
	cmd.Flags().StringVar(&from, "from", "",
		"send the signed command in this `FILE`, which --save has written")
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if signs.Given() || from != "" {
			s, err := a.sender(signs, o, *remote, format.Value)
			if err != nil {
				return err
			}
			if from != "" {
				if err := o.CheckSaved(sel); err != nil {
					return err
				}
				return s.Pass(cmd.Context(), from)
			}
			c, err := o.Command(sel)
			if err != nil {
				return err
			}
			return s.Order(cmd.Context(), c)
		}
		if err := o.Check(sel, *remote); err != nil {
			return err
		}
		if len(*remote) > 0 {
			if len(a.links) > 0 {
				return cli.Usage("end: over NATS hosts take only signed commands; give --sign")
			}
			dial, err := a.hostDialer()
			if err != nil {
				return err
			}
			f := ending.Fleet{Ender: *a.ender(nil, o, sel, format.Value), Dial: dial, Hosts: *remote}
			return f.End(cmd.Context())
		}
		return a.with(cmd.Context(), func(c api.Client) error { return a.ender(c, o, sel, format.Value).End(cmd.Context()) })
	}
	return cmd
}

func (a *app) sender(signs ending.SigningFlags, o ending.Options, remote hosts.List,
	format string) (*ending.CommandSender, error) {
	s := &ending.CommandSender{
		SigningFlags: signs, Console: &a.Console, Hosts: remote, Yes: o.Yes,
		Timeout: o.Timeout, Format: format, MaxHosts: o.MaxHosts,
		Local: a.client,
	}
	if len(remote) == 0 {
		return s, nil
	}
	var err error
	s.Dial, err = a.hostDialer()
	return s, err
}

// ender ends the selected sessions, and prints the receipts.
func (a *app) ender(c api.Client, o ending.Options, sel *api.Selection, format string) *ending.Ender {
	return &ending.Ender{Options: o, Sessions: *sel, Console: &a.Console, Client: c,
		UID: a.host.euid(), Format: format}
}

const haltLong = `Stop the agents of this host: end SESSION..., or every session without one, kept
ones too, with SIGKILL; and let no known agent start until "lineage halt --off".
Known are the agents of the policy's enabled rules, in mode observe, too. If a
rule needs only the name, they die at their exec, in the kernel; else as soon as
the daemon has recognised them. "lineage run" and "lineage adopt" are refused.

--sign KEY makes a command of it, or of --drain or --off, as "lineage end" does:
it needs no rights of the user that brings it, here or with -H on other hosts.

--drain ends no process. Sessions continue, and may start agents and sessions in
them; outside of them, agents and new sessions are refused in the same way.

A halt holds without a daemon, and across its restart and upgrade, but not
across a reboot or "lineage daemon --unload". To begin one a daemon has to run.
Only root may, outside of every session. Exits with 6 if a session did not end,
and with 4 if one was spared, because it has the daemon or an ancestor of it.`

func (a *app) haltCommand() *cobra.Command {
	var o ending.Options
	var reason string
	var drain, off bool
	cmd := &cobra.Command{
		Use:   "halt [SESSION...]",
		Short: "End all sessions, and let no agent start until this is lifted",
		Long:  haltLong,
		Example: `  sudo lineage halt --reason "case 7"         # shows what will end, and asks
  sudo lineage halt --drain --reason upgrade  # nothing new; what runs continues
  sudo lineage halt --off`,
		ValidArgsFunction: a.completeSession("live"),
	}
	sel := cli.Selection(cmd, a.host.euid)
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "why, in one `LINE` that every refusal shows")
	f.BoolVar(&drain, "drain", false, "refuse what is new, and end nothing")
	f.BoolVar(&off, "off", false, "lift the halt")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be ended, and change nothing")
	f.DurationVar(&o.Timeout, "timeout", ending.Timeout, "how much `TIME` dying processes have after SIGKILL")
	f.BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	var signs ending.SigningFlags
	signs.AddSigning(f)
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		signed := signs.Given()
		mode := api.ModeHalt
		switch {
		case drain:
			mode = api.ModeDrain
		case off:
			mode = api.ModeOff
		}
		switch {
		case signed && o.DryRun:
			return cli.Usage("halt: --sign takes no --dry-run")
		case !signed && len(*remote) > 0:
			return cli.Usage("halt: -H needs --sign")
		case drain && off:
			return cli.Usage("halt: give only one of --drain and --off")
		case signed && sel.Filters():
			return cli.Usage("halt: --sign takes names, ids or --all")
		case (drain || off) && (sel.Given() || o.DryRun):
			return cli.Usage("halt: --drain and --off end nothing; select no session, and no --dry-run")
		case off && reason != "" && !signed:
			return cli.Usage("halt: --off takes no --reason")
		case !off && !o.DryRun && strings.TrimSpace(reason) == "":
			return cli.Usage("halt: --reason is missing")
		case len(reason) > api.MaxHaltReason:
			return cli.Usage("halt: --reason has %d bytes, at most %d fit", len(reason), api.MaxHaltReason)
		case o.Timeout < 0:
			return cli.Usage("halt: %w", cli.Invalid("--timeout", o.Timeout, "0 or more"))
		}
		if signed {
			signs.Reason = reason
			s, err := a.sender(signs, o, *remote, format.Value)
			if err != nil {
				return err
			}
			return s.Order(ctx, api.Command{Verb: api.VerbHalt, Mode: mode, Sessions: args,
				All: mode == api.ModeHalt && sel.OrAll().All})
		}
		if mode != api.ModeHalt {
			return a.answer(ctx, nil, format.Value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
				d, err := c.Halt(ctx, api.HaltRequest{Mode: mode, Reason: reason})
				if err != nil {
					return nil, err
				}
				return halted(d), nil
			})
		}
		return a.with(ctx, func(c api.Client) error { return a.ender(c, o, sel.OrAll(), format.Value).Halt(ctx, reason) })
	}
	return cmd
}

func halted(d *api.Halted) *text.Listing {
	d.Head = api.NewHead("halted")
	return &text.Listing{Doc: d, Items: []any{d},
		Text: func(p *text.Page) { p.Wrap(0, display.HaltLine(d.Halt)) }}
}

func (a *app) waitCommand() *cobra.Command {
	goal := cli.Choice{Value: "end", Words: slices.Sorted(maps.Keys(ending.Goals))}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait SESSION...",
		Short: "Wait until sessions are proven to be gone",
		Long: `Wait until every selected session has ended, and print the receipts: 0 says that
the kernel counts no member of any. What other daemons do for a session, and
lineage knows of, is waited for, too. The selection is made once, at the start;
for a session that has ended the answer is that of the history. A daemon that
restarts meanwhile does not matter.

Exits with 6 if something is left, with 1 if that is unknown or no daemon
answers, and with 124 if the time is over. "wait" ends nothing.`,
		Example: `  lineage wait build --timeout 30s && ./start-again
  lineage wait agent --for root-exit  # its leftovers may live on`,
		ValidArgsFunction: a.completeSession("all"),
	}
	sel := cli.Selection(cmd, a.host.euid)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this `TIME` (default: never)")
	cmd.Flags().Var(&goal, "for", "wait for this `STATE`: "+strings.Join(goal.Words,
		", ")+"; an ended session has reached each")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case !sel.Given():
			return cli.Usage(`wait: SESSION is missing; see "lineage wait --help"`)
		case cmd.Flags().Changed("timeout") && timeout <= 0:
			return cli.Usage("wait: %w", cli.Invalid("--timeout", timeout, "above 0"))
		}
		w := ending.Waiter{Sessions: *sel, Goal: goal.Value, Timeout: timeout,
			Console: &a.Console, Dial: a.client, Format: format.Value}
		return w.Wait(cmd.Context())
	}
	return cmd
}
