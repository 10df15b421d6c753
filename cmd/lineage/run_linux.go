package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

const runHelp = `Run CMD as the root of a new session. Every process that it starts, and every
process that those start, belongs to the session. When CMD exits, the session
ends: SIGTERM, and SIGKILL when the grace is over. stderr names leftovers, what
CMD died of, or why the session ended first. CMD keeps stdin, stdout, stderr.

Signals are forwarded to CMD. If it does not exit on SIGTERM, another one at
least 1s later ends the session, and a third one ends it without grace.

--leaks fail finds what a test forgot: a process that is alive 200ms after CMD
exited, and not kept by the policy, is named with its ports and its creator, and
the exit code is 123 if CMD's is 0, 125 if it cannot be known. All of it is
ended, as without the flag.

--exclusive fails with 75 unless the last session of that --name is proven to be
empty, and its work in other daemons over. "wait" waits for that in a queue;
"replace" ends the session first, and names ports that are in TIME_WAIT.

--signals session lets CMD, and what it starts, signal only one another: kill,
pkill and kill -1 reach nothing else, root or not (Linux 6.12, Landlock). Unless
lineage runs as root, sudo does not work in such a session.

The kernel holds the whole session to --memory, --memory-high, --cpus and
--max-tasks, by a cgroup (version 2). If it cannot, nothing is started: 125.

--report opens FILE, or its directory, before CMD starts, with the rights of
--user. A regular file is replaced as a whole; a FIFO, a device, /dev/stdout or
/dev/fd/N is written to. A symbolic link is refused. For browsers,
"lineage history SESSION --html" writes a page with processes and a timeline.

The exit code is CMD's, 128 + N if it died of signal N, 127 if it does not
exist, 126 if it cannot be executed, 75 if --exclusive found the name in use,
125 if something else failed before CMD ran or the receipt of --report could not
be written, and 124 instead of 0 if a limit ended the session.`

func (a *app) runCommand(run func(context.Context, supervise.Options) int,
	connect func(context.Context, string) (api.Client, error)) *cobra.Command {
	o := supervise.Options{}
	onExit := cli.Choice{Value: supervise.OnExitEnd,
		Words: []string{supervise.OnExitEnd, supervise.OnExitReport}}
	signals, exclusive := cli.Choice{Value: "any",
		Words: []string{"any", "session"}}, cli.Choice{Words: api.Exclusive}
	leaks, spare := cli.Choice{Words: []string{"fail"}}, cli.Choice{Words: []string{"root"}}
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG...]",
		Short: "Run a command in a new session, and end what it leaves behind",
		Long:  runHelp,
		Example: `  sudo lineage run -- make -j8
  sudo lineage run --name agent --user dev -- claude
  sudo lineage run --max-lifetime 30m --memory 8GiB --cpus 2.5 -- ./ci.sh
  sudo lineage run --report receipt.json -q -- npm test`,
	}
	take := a.wrapsCommand(cmd, &o, "the policy's, 5s")
	limits := limitFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		take(args)
		o.Limits.Cgroup = limits()
		if err := checkName(o.Name, exclusive.Value); err != nil {
			return err
		}
		for name, d := range map[string]time.Duration{"max-lifetime": o.Limits.MaxLifetime, "idle": o.Limits.Idle} {
			if cmd.Flags().Changed(name) && d < time.Millisecond {
				return before("run: %w", cli.Invalid("--"+name, d, "at least 1ms"))
			}
		}
		if cmd.Flags().Changed("max-processes") && o.Limits.MaxProcesses < 1 {
			return before("run: %w", cli.Invalid("--max-processes", o.Limits.MaxProcesses, "at least 1"))
		}
		o.Confine, o.Spare, o.Exclusive = signals.Value == "session", spare.Value, exclusive.Value
		if o.OnExit, o.Leaks.Fail = onExit.Value, leaks.Value != ""; o.Leaks.Fail &&
			o.OnExit == supervise.OnExitReport {
			return before("run: --leaks and --on-exit report exclude each other")
		}
		if o.Leaks.After < 0 || !o.Leaks.Fail && cmd.Flags().Changed("leaks-after") {
			return before("run: %w", cli.Invalid("--leaks-after", o.Leaks.After, "0s or more, with --leaks"))
		}
		a.reaches(&o, connect)
		if !o.Quiet {
			o.Ending = func(s *api.Session) func() { return ending.Show(&a.Console, o.Dial, s) }
		}
		return cli.Silent(run(cmd.Context(), o))
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "the session's `NAME`")
	f.Var(&exclusive, "exclusive", "what to do while the name is in use: `ACTION`, fail, wait or replace")
	f.Lookup("exclusive").NoOptDefVal = api.ExclusiveFail
	f.DurationVar(&o.Limits.MaxLifetime, "max-lifetime", 0, "end the session after this `TIME`")
	f.IntVar(&o.Limits.MaxProcesses, "max-processes", 0,
		"end the session when it has more than `N` processes, zombies included")
	f.Func("max-rss", "end the session when its processes use more than this `SIZE` of memory (8GiB, 512MiB)",
		sizeInto(&o.Limits.MaxRSS))
	f.DurationVar(&o.Limits.Idle, "idle", 0,
		"end the session after this `TIME` with no new process and under 1s of CPU")
	f.StringVar(&o.User, "user", "", "run CMD as this `USER`, by name or uid")
	f.Var(&onExit, "on-exit", "what to do with leftovers: `ACTION`, end or report")
	f.Var(&signals, "signals", "which processes CMD and what it starts may signal: `SCOPE`, any or session")
	f.Var(&spare, "spare", "which processes no other one of the session may kill or stop: `WHICH`, root (CMD and what its marks name)")
	f.Var(&leaks, "leaks", "what a process means that CMD leaves: `ACTION`, fail")
	f.DurationVar(&o.Leaks.After, "leaks-after", 200*time.Millisecond,
		"how long after CMD's exit it has to be alive: `TIME`")
	f.BoolVar(&o.Subreaper, "subreaper", true, "make orphans children of run, not of PID 1")
	return cmd
}

func checkName(name, exclusive string) error {
	switch {
	case name == "" && exclusive != "":
		return before("run: --exclusive needs --name")
	case name != "" && !api.IsSessionWord(name):
		return before("run: %w", cli.Invalid("--name", name, api.ASessionWord))
	}
	return nil
}

// sizeInto reads a size above 0.
func sizeInto(to *int64) func(text string) error {
	return func(text string) error {
		n, ok := policy.ParseSize(text)
		if !ok || n == 0 || n > api.MaxLimit {
			return errors.New("a size such as 512MiB or 8GiB")
		}
		*to = int64(n)
		return nil
	}
}

// reaches lets a command reach the daemon, and start one.
func (a *app) reaches(o *supervise.Options, connect func(context.Context, string) (api.Client, error)) {
	socket := a.socketPath()
	o.Dial = func(ctx context.Context) (api.Client, error) { return a.dial(ctx, socket) }
	o.Connect = func(ctx context.Context) (api.Client, error) {
		defer a.During(func(time.Time) string { return "lineage: starting the daemon" })()
		return connect(ctx, socket)
	}
}

// before is a failure of ours before CMD runs. Its exit code is that of env(1) and docker.
func before(format string, args ...any) error { return cli.Errorf(125, format, args...) }

// wrapsCommand makes cmd run CMD, with the flags that run and init have in common. take takes CMD.
func (a *app) wrapsCommand(cmd *cobra.Command, o *supervise.Options,
	defaultGrace string) (take func(args []string)) {
	f := cmd.Flags()
	cli.Grace(f, &o.Grace, defaultGrace)
	f.StringVar(&o.Report, "report", "", "write the receipt to `FILE` as JSON")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "do not report leftovers that were ended")
	return a.takesCommand(cmd, o, 0)
}

// takesCommand gives cmd the argument CMD, after n others. The returned function takes CMD.
func (a *app) takesCommand(cmd *cobra.Command, o *supervise.Options, n int) (fill func(args []string)) {
	cmd.ValidArgsFunction = cli.CompleteFiles
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) <= n {
			return before(`%s: CMD is missing; see "lineage %[1]s --help"`, cmd.Name())
		}
		return nil
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return before("%s: %w", cmd.Name(), cli.FlagError(cmd, err))
	})
	cmd.Flags().SetInterspersed(false) // CMD's flags are CMD's, even without --
	return func(args []string) {
		o.Args, o.Env = args, os.Environ()
		o.Stdin, o.Stdout, o.Stderr = file(0, a.Stdin), file(1, a.Stdout), file(2, a.Stderr)
	}
}

// file returns the file behind one of our streams; nil if it was closed, or if a test replaced the
// stream. In place of a closed one the runtime has opened /dev/null.
func file(fd int, stream any) *os.File {
	f, _ := stream.(*os.File)
	if urgent.Closed(fd) {
		return nil
	}
	return f
}

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
		return cli.Silent(run(cmd.Context(), o))
	}
	return cmd
}
