package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) treeCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "tree [SESSION...]",
		Short: "Show sessions as trees, with dead ancestors and orphans",
		Long: `Show a session as a tree: each process below its creator, with dead ancestors of
live processes, and orphans with the parent that they have now. With a PID,
PID@START or :PORT show what that process started. Without a selection, show
every live session.`,
		Example: `  lineage tree                  # all live sessions
  lineage tree build --all      # with processes that have exited
  lineage tree 4130             # what process 4130 started`,
		ValidArgsFunction: a.completeSession("live"),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "exited processes too that have no live descendant")
	sel := cli.Selection(cmd, a.host.euid)
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.answer(cmd.Context(), *remote, format.Value, askTree(sel.OrAll(), all))
	}
	return cmd
}

func askTree(sel *api.Selection, all bool) query.Asker {
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		trees, err := query.Trees(ctx, c, sel, all)
		if err != nil {
			return nil, err
		}
		l := text.Trees(trees, sel.One() && len(trees) == 1)
		if len(trees) == 0 {
			l.Empty = `no live session; "lineage run -- CMD" starts one`
		}
		return l, nil
	}
}
