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
		Short: "Say what leaks: growth per hour, memory held, hours to exhaustion",
		Long: `Say of each session, and of the host for who may read all of it, how many
processes it has, what memory they hold, what it gains in an hour, and when
that uses up the nearest limit: the host's memory or PIDs, or the session's own
max_rss or max_processes. The same by command, and the ports and locks held.

Growth is the median slope over the last three hours at most, sampled once a
minute while there is a session. Before ten minutes have passed there is not
enough data, and it says so. Memory that processes share counts in each.`,
		Args:              argsCount(0, 1, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	format := formatFlag(cmd)
	cmd.RunE = asking(a, format, text.Leaks, func(ctx context.Context, c api.Client, args []string) (*api.Leaks, error) {
		return c.Leaks(ctx, strings.Join(args, ""))
	})
	return cmd
}
