package main

import (
	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
)

func (a *app) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why PID|:PORT|PATH",
		Short: "Show which session a process, port or file belongs to",
		Long: `Show the session of a process and every step from the session's root down to
it: who created it, when, and what the creator ran then; and the ports and
locks that it holds. Creators that have exited are shown too. For a process
outside any session, show its parents, and the session that it owns.

With :PORT, show the processes that listen on the port (:53/udp for UDP); which
listened on it earlier, "lineage events --type listen --since 2h" shows. With
PATH, show the processes that have the file open or locked, or listen on that
unix socket. Name a file 8080 as ./8080. PID@START, which "-o name" prints, is
safe against reused PIDs.`,
		Example: `  lineage why 4130            # one process
  lineage why :8080           # what listens on TCP port 8080
  lineage why /srv/app.lock   # what has the file open or locked`,
		Args:              cli.Args(1, 1, "PID, :PORT or PATH"),
		ValidArgsFunction: a.completeMember,
	}
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		why := query.Why{Remote: len(*remote) > 0}
		if !why.Remote {
			why.Ancestors = a.host.ancestors
		}
		ask, err := why.Of(args[0])
		if err != nil {
			return err
		}
		return a.answer(cmd.Context(), *remote, format.Value, ask)
	}
	return cmd
}
