package main

import (
	"context"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the daemon runs, and whether all is well",
		Long: `Show the daemon's version, guarantee level and mode, how many sessions are live,
and what does not work as it should. Exits with 0 if all is well, with 1 if the
daemon is degraded, and with 5 if none answers.`,
		Example: `  lineage status
  lineage status -o json | jq .status.degraded
  lineage status -H web1,web2`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd, text.Documents...)
	remote := hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var degraded atomic.Bool
		err := a.answer(cmd.Context(), *remote, format.value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			v, err := c.Version(ctx)
			if err != nil {
				return nil, err
			}
			st, err := c.Status(ctx)
			if err != nil {
				return nil, err
			}
			if len(st.Degraded) > 0 {
				degraded.Store(true)
			}
			return text.Daemon(v, st), nil
		})
		if err == nil && degraded.Load() {
			return exit.Silent(api.ExitFailed)
		}
		return err
	}
	return cmd
}
