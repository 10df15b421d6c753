package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/flags"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/signing"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

const endLong = `End sessions: SIGTERM to every member, SIGKILL when the grace is over, and
SIGKILL to every process that is born after that. Returns when the kernel
counts no live member, and reports how each one ended; exits with 6 if one is
left.

--dry-run sends nothing and shows which processes an end would signal and why,
what they hold, and what could not be killed. It prints a token: --if-plan TOKEN
ends only what was listed. If a process is new, nothing is sent.

--branch ends one member of a session and every process that it ever started,
also through dead ones. The rest of the session keeps running. A member may end
branches of its own session, except itself, its ancestors, the root and owners.
With --branch, a plan also covers new processes that run a listed command.

--call ends what one tool call of an agent has left ("lineage ls --calls"), and
nothing that another call, open at the same time, may have started. The agent
keeps running.

--all ends every live session that you may end (as root: of all users), --mine
only those of your user. Kept sessions, and sessions with a kept one in them,
are left alone: name them to end them.

--idle TIME ends the live sessions, which --all would end, that were idle for so
long: no new process, under 1s of CPU (the policy's idle_cpu), no open or new
tool call, and no client at a TCP port or unix socket, nested sessions included.
The daemon must have run all that time. A client that comes and goes within
seconds may not be seen, nor one by datagrams (UDP, unix), nor work of so little
CPU that starts no process. The plan shows the CPU, the ports and the last event
of each. What works again when the question is answered is left alone.

--left ends the sessions whose root is gone, or those among SESSION..., and
nothing else: no orphan whose session's root lives, no kept session, and no
session with a nested session whose root lives.

With -H the sessions with these names end on many hosts: each host makes a plan,
and one question is asked. Then they end on one host, on ten more, and on the
others; if something is left on a host, the later ones are spared. If a host has
a new process, it ends nothing and says so. Exits with 6 if a host was not
reached or did not end everything.

--sign KEY makes a command of it that the host checks against the keys of its
operators, so that it needs no rights of the user that brings it, there or over
ssh. It names SESSION..., where a name means every session that has it, or
--all; --reason is needed. --save FILE writes it for the next signer, and
"lineage end --from FILE", which may add a --sign, sends it to this host or with
-H to others, after a question. It is valid for five minutes, only for the hosts
that it names, and acts once on each.

On a terminal the state is shown while it takes longer than a second; Ctrl-C
then kills at once. Elsewhere the first Ctrl-C prints the state, and the second
kills.`

func (a *app) endCommand() *cobra.Command {
	var o ending.Options
	cmd := &cobra.Command{
		Use:   "end SESSION...",
		Short: "End sessions, or a process with everything that it ever started",
		Long:  endLong,
		Example: `  lineage end build                  # shows what will be ended, and asks
  lineage end build web --now --yes  # SIGKILL at once, without asking
  lineage end 4130@36995259200030 --branch --dry-run
  lineage end claude --sign ~/.ssh/id_ed25519.pub --reason "case 7" -H web1`,
		Args:              flags.Args(0, 1<<20, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	o.Flags(cmd.Flags())
	var signs signing.Flags
	signs.Add(cmd.Flags())
	var from string
	cmd.Flags().StringVar(&from, "from", "", "send the signed command in this `FILE`, which --save has written")
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if signs.Given() || from != "" {
			s, err := a.sender(signs, o, *remote, format.Value)
			if err != nil {
				return err
			}
			if from != "" {
				if err := o.CheckSaved(len(args)); err != nil {
					return err
				}
				return s.Pass(cmd.Context(), from)
			}
			c, err := o.Command(args)
			if err != nil {
				return err
			}
			return s.Order(cmd.Context(), c)
		}
		if err := o.Check(len(args), *remote); err != nil {
			return err
		}
		if len(*remote) > 0 {
			if len(a.links) > 0 {
				return exit.Usage("end: over NATS hosts take only signed commands; give --sign")
			}
			dial, err := a.hostDialer()
			if err != nil {
				return err
			}
			f := ending.Fleet{Options: o, Console: &a.Console, Dial: dial, Hosts: *remote, Format: format.Value}
			return f.End(cmd.Context(), args)
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		return a.end(cmd.Context(), c, o, args, format.Value)
	}
	return cmd
}

// sender sends signed commands.
func (a *app) sender(signs signing.Flags, o ending.Options, remote hosts.List, format string) (*signing.Sender, error) {
	s := &signing.Sender{
		Flags: signs, Console: &a.Console, Hosts: remote, Yes: o.Yes, Timeout: o.Timeout, Format: format, MaxHosts: o.Many.Most,
		Local: func(ctx context.Context, _ string) (api.Client, error) { return a.client(ctx) },
	}
	if len(remote) == 0 {
		return s, nil
	}
	var err error
	s.Dial, err = a.hostDialer()
	return s, err
}

// end ends the sessions or processes that words name, and prints the receipts.
func (a *app) end(ctx context.Context, c api.Client, o ending.Options, words []string, format string) error {
	e := ending.Ender{Options: o, Console: &a.Console, Client: c, UID: a.host.euid(), Format: format}
	return e.End(ctx, words)
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
		Args:              flags.Args(0, 1<<20, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "why, in one `LINE` that every refusal shows")
	f.BoolVar(&drain, "drain", false, "refuse what is new, and end nothing")
	f.BoolVar(&off, "off", false, "lift the halt")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be ended, and change nothing")
	f.DurationVar(&o.Timeout, "timeout", ending.Timeout, "how much `TIME` dying processes have after SIGKILL")
	f.BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	var signs signing.Flags
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
			return exit.Usage("halt: --sign takes no --dry-run")
		case !signed && len(*remote) > 0:
			return exit.Usage("halt: -H needs --sign")
		case drain && off:
			return exit.Usage("halt: give only one of --drain and --off")
		case (drain || off) && (len(args) > 0 || o.DryRun):
			return exit.Usage("halt: --drain and --off end nothing; name no SESSION, and no --dry-run")
		case off && reason != "" && !signed:
			return exit.Usage("halt: --off takes no --reason")
		case !off && !o.DryRun && strings.TrimSpace(reason) == "":
			return exit.Usage("halt: --reason is missing")
		case len(reason) > api.MaxHaltReason:
			return exit.Usage("halt: --reason has %d bytes, at most %d fit", len(reason), api.MaxHaltReason)
		case o.Timeout < 0:
			return exit.Usage("halt: %w", exit.Invalid("--timeout", o.Timeout, "0 or more"))
		}
		if signed {
			signs.Reason = reason
			s, err := a.sender(signs, o, *remote, format.Value)
			if err != nil {
				return err
			}
			return s.Order(ctx, api.Command{Verb: api.VerbHalt, Mode: mode, Sessions: args, All: mode == api.ModeHalt && len(args) == 0})
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
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		e := ending.Ender{Options: o, Console: &a.Console, Client: c, UID: a.host.euid(), Format: format.Value}
		return e.Halt(ctx, args, reason)
	}
	return cmd
}

// halted shows the halt that is in force.
func halted(d *api.Halted) *text.Listing {
	d.Head = text.Head("halted")
	return &text.Listing{Doc: d, Items: []any{d}, Text: func(p *text.Page) { p.Wrap(0, display.HaltLine(d.Halt)) }}
}
