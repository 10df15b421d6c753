package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
)

// timeoutCommand is the command line of timeout; run does the work and returns the exit code.
func (a *app) timeoutCommand(
	run func(context.Context, supervise.Options, supervise.Limit) int,
	connect func(context.Context, string) (api.Client, error),
) *cobra.Command {
	o, l := supervise.Options{}, supervise.Limit{Signal: unix.SIGTERM}
	cmd := &cobra.Command{
		Use:   "timeout [flags] DURATION CMD [ARG...]",
		Short: "Run a command with a time limit, and end what it leaves behind",
		Long: `Run CMD, and send it a signal if it still runs after DURATION: a number of
seconds, or one with the suffix s, m, h or d; 0: no limit. Arguments, signals
and exit codes are those of timeout(1). In addition, when CMD exits, what it
started ends: SIGTERM, and SIGKILL after the time of -k, or else the policy's
grace. After DURATION the history has max_lifetime as the reason of the end.

CMD runs in a session, as under "lineage run". Without a daemon, and the right
to start one, it runs as under "lineage init": what descends from CMD ends, but
not what another daemon started for it, and not if timeout itself is killed.
-v says so.

The exit code is 124 after DURATION, without --preserve-status; 125 if timeout
failed, 126 if CMD cannot be executed, 127 if it does not exist, 137 if it was
killed, and otherwise CMD's.`,
		Example: `  sudo lineage timeout 10m make test
  lineage timeout -k 5s -s INT 1h ./agent.sh`,
	}
	fill := a.takesCommand(cmd, &o, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := (*supervise.Seconds)(&l.After).Set(args[0]); err != nil {
			return before("timeout: %w", cli.Invalid("DURATION", args[0], err.Error()))
		}
		fill(args[1:])
		a.reaches(&o, connect)
		return cli.Silent(run(cmd.Context(), o, l))
	}
	f := cmd.Flags()
	f.VarP((*supervise.Seconds)(&l.KillAfter), "kill-after", "k",
		"also send SIGKILL if CMD runs this `DURATION` after the first signal")
	f.VarP((*supervise.Signal)(&l.Signal), "signal", "s",
		"the `SIGNAL` to send after DURATION, by name or number")
	f.BoolVar(&l.Foreground, "foreground", false,
		"signal CMD alone, not its process group, and let it use the terminal")
	f.BoolVar(&l.Preserve, "preserve-status", false, "exit with CMD's code after DURATION, too")
	f.BoolVarP(&l.Verbose, "verbose", "v", false, "report each signal that is sent")
	cli.Abbreviate(f, "kill-after", "signal", "foreground", "preserve-status", "verbose", "help")
	return cmd
}
