package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) lsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:               "ls",
		Short:             "List sessions",
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "ended sessions too")
	format := formatFlag(cmd)
	cmd.RunE = asking(a, format, text.Sessions, func(ctx context.Context, c api.Client, _ []string) (*api.Sessions, error) {
		state := "live"
		if all {
			state = "all"
		}
		return c.Sessions(ctx, state, "")
	})
	return cmd
}
