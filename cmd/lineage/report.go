package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report [SESSION]",
		Short: "Show what leaks: growth per hour, memory, time to exhaustion",
		Long: `Show, per session and (if permitted) for the host, the number of processes, the
memory that they hold, the growth per hour, and when that exhausts the nearest
limit: the host's memory or PIDs, or the session's max_rss or max_processes.
The same per command, and the ports and locks held.

Growth is the median slope over the last three hours at most, sampled once a
minute while there is a session; in the first ten minutes there is not enough
data. Memory that processes share is counted in each of them.`,
		Example: `  lineage report
  lineage report build --json | jq '.items[].hours_to_exhaustion'`,
		Args:              argsCount(0, 1, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	format := formatFlag(cmd)
	cmd.RunE = asking(a, format, text.Leaks, func(ctx context.Context, c api.Client, args []string) (*api.Leaks, error) {
		return c.Leaks(ctx, strings.Join(args, ""))
	})
	return cmd
}
