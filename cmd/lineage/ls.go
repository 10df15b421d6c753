package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

const lsLong = `List the live sessions that you may see: your own, as root those of all users.
LIVE, ORPHANS, ZOMBIES, CPUS and RSS include nested sessions, CPU does not. The
name in parentheses is that of a container. A terminal that is too narrow
gets fewer columns; a pipe always gets the same ones.

--left lists live processes whose creator is dead (orphan) or whose session has
lost its root (leftover), and dead ones that their parent has not waited for
(zombie), and what members handed to daemons such as tmux or docker (delegated).
"lineage end --left" ends leftovers. With --equal it lists equal live processes,
such as old servers of an agent that lives: same file, same arguments except for
numbers, same nearest living creator. IDLE is since when they used less than 1s
of CPU, shortest to longest, RSS the sum; both with descendants. An idle server
may have a client. "lineage end PID --branch --dry-run" shows what would end.

--calls lists what each tool call of an agent has left, and the CPUs that it
uses. "a or b": of one of these, which were open at once.

--outside lists orphans that are in no session, and hold a deleted directory, a
dead terminal or a port. "lineage adopt PID" makes one a session.`

func (a *app) lsCommand() *cobra.Command {
	var ended bool
	sort := cli.Choice{Words: query.Orders()}
	views := a.views()
	cmd := &cobra.Command{
		Use:     "ls [--left | --calls] [SESSION...]",
		Aliases: []string{"ps"},
		Short:   "List sessions, and what they left behind",
		Long:    lsLong,
		Example: `  lineage ls --all --sort rss       # ended ones too, most memory first
  lineage ls 'nightly-*' :8080      # of these names, and what has the port
  lineage ls --left build           # what is left of one session`,
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVarP(&ended, "all", "a", false, "ended sessions too")
	f.Var(&sort, "sort", "sort by `COLUMN`: "+strings.Join(sort.Words, ", "))
	known := text.SessionColumns
	for i := range views {
		v := &views[i]
		f.BoolVar(&v.chosen, v.flag, false, v.usage)
		known = append(
			known[:len(known):len(known)],
			slices.DeleteFunc(slices.Clone(v.columns),
				func(c string) bool { return slices.Contains(known, c) })...)
	}
	sel := cli.Selection(cmd, a.host.euid)
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	takeColumns := a.columnFlags(cmd, format, known...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v, err := chosenView(cmd, views)
		if err != nil {
			return err
		}
		if sel.Ended = ended; v == nil {
			v = &lsView{columns: text.SessionColumns, list: func(ctx context.Context, c api.Client, sel *api.Selection) (*text.Listing, error) {
				return query.Sessions(ctx, c, sel, sort.Value, a.Now())
			}}
		}
		if v.flag == "outside" && (len(*remote) > 0 || sel.Given()) {
			return cli.Usage("ls: --outside is for all of this host, without SESSION and -H")
		}
		if err := takeColumns(true, v.columns); err != nil {
			return err
		}
		return a.answer(cmd.Context(), *remote, format.Value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			return v.list(ctx, c, sel.OrAll())
		})
	}
	return cmd
}
