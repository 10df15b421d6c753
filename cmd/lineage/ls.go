package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/flags"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// lsLong is the help of ls.
const lsLong = `List the live sessions that you may see: your own, as root those of all users.

  NAME      in parentheses: of the container that a session without a name holds
  STATE     leftover: active, but its root is gone
  LIVE      live processes, nested sessions included
  ORPHANS   those whose creator is dead, nested sessions included
  ZOMBIES   dead processes that their parent has not waited for
  CPU       time since the start, without nested sessions
  CPUS      how many CPUs the live processes use now, nested sessions included
  RSS       memory of the live processes, nested sessions included
  AGE       of an ended session: how long it lasted
  ROOT      the process that the session was opened for, and what it ran first

A terminal that is too narrow gets fewer columns; a pipe always gets the same
ones.

--left lists live processes whose creator is dead (orphan), those whose
session's root is gone (leftover), and dead ones that their parent has not
waited for (zombie). Work that members handed to other daemons, such as tmux or
docker, is listed with the evidence for it (brokered); or, if no process was
found, with the process that asked (brokered, unattributed). "lineage end
--left" ends leftovers. PARENT has to wait for a zombie, which holds only its
PID; if the parent does not, mend it, restart it or end it.

--calls lists live processes by the tool call of an agent that started them, as
the agent's hooks reported it: how long it took, what it has left, and how many
CPUs that uses now. "a or b": these calls were open at once, and each process is
of one of them. "lineage end --call ID" ends what one call has left.

--outside lists orphans that are in no session: children of PID 1 that belong to
no system service and hold a deleted directory, a dead terminal or a port. A
port that one of their descendants holds counts, too. "lineage adopt PID" makes
such a process a session that can be ended.`

func (a *app) lsCommand() *cobra.Command {
	var o query.Sessions
	sort, state := flags.Choice{Value: "", Words: query.Orders()}, flags.Choice{Value: "", Words: []string{"active", text.Paused, text.Leftover, "kept", "ending", "condemned", "ended"}}
	views := a.views()
	cmd := &cobra.Command{
		Use:     "ls [--left | --calls] [SESSION]",
		Aliases: []string{"ps"},
		Short:   "List sessions, and what they left behind",
		Long:    lsLong,
		Example: `  lineage ls --all --sort rss       # ended ones too, most memory first
  lineage ls --left build           # what is left of one session`,
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.All, "all", "a", false, "ended sessions too")
	f.Var(&sort, "sort", "sort by `COLUMN`: "+strings.Join(sort.Words, ", "))
	f.Var(&state, "state", "only sessions in this `STATE`: "+strings.Join(state.Words, ", "))
	ending.IdleFlag(f, &o.Idle, "only sessions that were idle for this `TIME`; see \"lineage end --help\"")
	o.Where.Flags(f, "only sessions whose root is")
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sort.Words, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(state.Words, cobra.ShellCompDirectiveNoFileComp))
	known := text.SessionColumns
	for i := range views {
		v := &views[i]
		f.BoolVar(&v.chosen, v.flag, false, v.usage)
		known = append(known[:len(known):len(known)], slices.DeleteFunc(slices.Clone(v.columns), func(c string) bool { return slices.Contains(known, c) })...)
	}
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	takeColumns := a.columnFlags(cmd, format, known...)
	sessions := lsView{columns: text.SessionColumns, list: func(ctx context.Context, c api.Client, _ string) (*text.Listing, error) { return o.List(ctx, c) }}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Sort, o.State, o.Now = sort.Value, state.Value, a.Now()
		v, err := chosenView(cmd, sessions, views)
		if err != nil {
			return err
		}
		if err := flags.Args(0, v.session, "")(cmd, args); err != nil {
			return err
		}
		switch {
		case o.Idle > 0 && (o.All || o.State == "ended"):
			return exit.Usage("ls: --idle is for live sessions, not with --all or --state ended")
		case v.flag == "outside" && len(*remote) > 0:
			return exit.Usage("ls: --outside is for this host, not with -H")
		}
		if err := takeColumns(v.columns != nil, v.columns); err != nil {
			return err
		}
		return a.answer(cmd.Context(), *remote, format.Value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			return v.list(ctx, c, strings.Join(args, ""))
		})
	}
	return cmd
}
