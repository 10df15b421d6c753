package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/flags"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type treeOptions struct {
	all, calls bool
	where      ending.Where
}

func (a *app) treeCommand() *cobra.Command {
	var o treeOptions
	cmd := &cobra.Command{
		Use:   "tree [SESSION|PID]",
		Short: "Show sessions as trees, with dead ancestors and orphans",
		Long: `Show a session as a tree: each process below its creator, with dead ancestors of
live processes, and orphans with the parent that they have now. With a PID,
show what that process started. Without an argument, show every live session.

A number is the id or name of a session if there is one, else a PID; PID@START
always means the process.`,
		Example: `  lineage tree                  # all live sessions
  lineage tree build --all      # with processes that have exited
  lineage tree 4130             # what process 4130 started`,
		Args:              flags.Args(0, 1, ""),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.all, "all", "a", false, "exited processes too that have no live descendant")
	f.BoolVar(&o.calls, "calls", false, "group processes by the tool call that started them")
	o.where.Flags(f, "live sessions whose root is")
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		arg := strings.Join(args, "")
		if o.where.Given() && arg != "" {
			return exit.Usage("tree: --container and --pod choose live sessions; name none")
		}
		return a.answer(cmd.Context(), *remote, format.Value, a.askTree(o, arg))
	}
	return cmd
}

// askTree asks for the trees that arg names.
func (a *app) askTree(o treeOptions, arg string) query.Asker {
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		trees, err := query.Trees(ctx, c, arg, o.all, o.where)
		if err != nil {
			return nil, err
		}
		l := text.Trees(trees, arg != "", o.calls)
		if len(trees) == 0 {
			l.Empty = `no live session; "lineage run -- CMD" starts one`
		}
		return l, nil
	}
}
