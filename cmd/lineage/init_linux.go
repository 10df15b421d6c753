package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
)

// initCommand is the command line of init; run does the work and returns the exit code.
func (a *app) initCommand(run func(context.Context, supervise.Options) int) *cobra.Command {
	o := supervise.Options{}
	var grace time.Duration
	before := func(format string, args ...any) error {
		return exit.Errorf(exitBeforeCommand, format, args...)
	}
	cmd := &cobra.Command{
		Use:   "init [flags] -- CMD [ARG...]",
		Short: "Run a command as PID 1 of a container: forward, reap, end",
		Long: `Run CMD from PID 1 of a container, without a daemon, BPF or privileges. Signals
are forwarded to CMD. Orphans are reaped; children that CMD does not wait for
remain its own. When CMD exits, every other process in the container gets
SIGTERM, and SIGKILL when the grace is over; init returns when none is left.
While it waits, SIGTERM, SIGINT, SIGHUP or SIGQUIT ends the grace, and a second
one ends the wait.

If it is not PID 1, it becomes a subreaper and does the same for the
descendants of CMD. It does not see work that another daemon started for CMD.

The exit code is CMD's, 128 + N if it died of signal N, 127 if it does not
exist, 126 if it cannot be executed, and 125 if something else failed before
CMD ran, or if the receipt of --report could not be written.`,
		Example: `  lineage init -- ./server            # as the entry point of a container
  lineage init --grace 30s -- ./ci.sh`,
		ValidArgsFunction: files,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return before(`init: CMD is missing; see "lineage init --help"`)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("grace") {
				if grace < 0 || grace > api.MaxGrace {
					return before("init: invalid --grace %v: must be 0 to %s", grace, "10m")
				}
				o.Grace = &grace
			}
			o.Args, o.Env = args, os.Environ()
			o.Stdin, o.Stdout, o.Stderr = file(0, a.Stdin), file(1, a.Stdout), file(2, a.Stderr)
			return exit.Told(run(cmd.Context(), o))
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return before(`init: %w; see "lineage init --help"`, err)
	})
	f := cmd.Flags()
	f.SetInterspersed(false) // CMD's flags are CMD's, even without --
	f.DurationVar(&grace, "grace", 0, "`time` between SIGTERM and SIGKILL, at most 10m (default 5s)")
	f.StringVar(&o.Report, "report", "", "write the receipt to `FILE` as JSON")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "do not report leftovers that were ended")
	return cmd
}
