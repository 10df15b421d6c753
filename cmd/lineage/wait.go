package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
)

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
	cmd.Flags().Var(&goal, "for", "wait for this `STATE`: "+strings.Join(goal.Words, ", ")+"; an ended session has reached each")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case !sel.Given():
			return cli.Usage(`wait: SESSION is missing; see "lineage wait --help"`)
		case cmd.Flags().Changed("timeout") && timeout <= 0:
			return cli.Usage("wait: %w", cli.Invalid("--timeout", timeout, "above 0"))
		}
		w := ending.Waiter{Sessions: *sel, Goal: goal.Value, Timeout: timeout, Console: &a.Console, Dial: a.client, Format: format.Value}
		return w.Wait(cmd.Context())
	}
	return cmd
}
