package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
)

func (a *app) pauseCommand() *cobra.Command {
	return a.repauses(&cobra.Command{
		Use:   "pause SESSION...",
		Short: "Stop a session, to look at it before ending it",
		Long: `Stop every member of a session, and of those nested in it, with SIGSTOP. New
ones stop at birth. A process that may signal a member can continue it: a pause
is no containment against that user. The member is stopped again, and ls, tree,
why and top show how many run, and who continues them. Returns when two checks
find all stopped, after 2 s at most; a member that sleeps in the kernel is
named, and stops when it leaves it. A restart of the daemon does not matter.

A user who may end a session may pause it, from outside. It still ends as
always: by "lineage end", max_lifetime or its owner's exit, but with SIGKILL at
once, as stopped processes would not see SIGTERM. It does not become idle.`,
		Example: `  lineage pause build
  lineage tree build        # what does it do?
  lineage resume build      # or: lineage end build`,
	}, "stopped", api.Client.Pause)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.repauses(&cobra.Command{
		Use:   "resume SESSION...",
		Short: "Continue a session that was paused",
		Long: `Continue the members that "lineage pause" has stopped. One that was stopped
before, by job control, stays stopped. If a session around this one is paused,
too, all stay stopped until that one is resumed.`,
		Example: `  lineage resume build`,
	}, "continued", api.Client.Resume)
}

// repauses makes cmd a command that asks for one of the two.
func (a *app) repauses(cmd *cobra.Command, how string,
	ask func(api.Client, context.Context, string) (*api.Session, error)) *cobra.Command {
	cmd.ValidArgsFunction = a.completeSession("live")
	sel := cli.Selection(cmd, a.host.euid)
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !sel.Given() {
			return cli.Usage(`%s: SESSION is missing; see "%s --help"`, cmd.Name(), cmd.CommandPath())
		}
		ctx := cmd.Context()
		fits := func(s *api.Session) bool { return s.State == api.StateActive && s.IsPaused() == (how == "continued") }
		return a.with(ctx, func(c api.Client) error {
			return a.ender(c, ending.Options{Yes: *yes}, sel, "").Each(ctx, cmd.Name(), fits, func(id string) error {
				s, err := ask(c, ctx, id)
				if err != nil {
					return err
				}
				return a.printOpened(cmd, format.Value, s, repaused(s, how))
			})
		})
	}
	return cmd
}

// repaused says what a session does after a request that its processes are stopped or continued.
func repaused(s *api.Session, how string) string {
	switch {
	case how == "stopped" && s.Continued != nil:
		return display.Paused(s)
	case how == "continued" && s.Paused != nil:
		return "still stopped, by the session around it"
	}
	return how
}
