package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
)

// initCommand is the command line of init; run does the work and returns the exit code.
func (a *app) initCommand(run func(context.Context, supervise.Options) int) *cobra.Command {
	o := supervise.Options{}
	cmd := &cobra.Command{
		Use:   "init [flags] -- CMD [ARG...]",
		Short: "Run a command as PID 1 of a container: forward, reap, end",
		Long: `Run CMD from PID 1 of a container, without a daemon, BPF or privileges. Signals
are forwarded to CMD. Orphans are reaped; children that CMD does not wait for
remain its own. When CMD exits, every other process in the container gets
SIGTERM, and SIGKILL when the grace is over; init returns when none is left.
While it waits, a first signal skips the grace, and a second one stops waiting.

If it is not PID 1, it becomes a subreaper and does the same for the
descendants of CMD. It does not see work that another daemon started for CMD.

The exit code is CMD's, 128 + N if it died of signal N, 127 if it does not
exist, 126 if it cannot be executed, and 125 if something else failed before
CMD ran, or if the receipt of --report could not be written.`,
		Example: `  lineage init -- ./server            # as the entry point of a container
  lineage init --grace 30s -- ./ci.sh`,
	}
	take := a.wrapsCommand(cmd, &o, "5s")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		take(args)
		return exit.Silent(run(cmd.Context(), o))
	}
	return cmd
}
