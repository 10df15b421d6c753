package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
)

// app is what the commands share: their injected environment, and the flags that all of
// them take.
type app struct {
	cli.Console
	dial     func(ctx context.Context, socket string) (api.Client, error)
	dialHost hosts.Dialer // the daemon of another host
	host     host

	socket string
	begun  bool              // the command line was understood
	links  []*hosts.NATSLink // to the servers of the groups of -H
}

// host has the functions that need this machine instead of a daemon.
type host struct {
	version string
	commit  string                   // "": not known
	abi     func() string            // a hash of the kernel side, takes half a millisecond
	objects func() map[string]string // the SHA-256 of each object of the kernel side
	doctor  func(socket string) api.Doctor
	// unrefused reports whether the kernel is known not to refuse signals.
	unrefused func() bool
	// halted is the halt that is in force without a daemon on the socket; nil: none, or not readable.
	halted func(socket string) *api.Halt
	euid   func() int
	// ancestors are the parents of a process as the kernel has them now.
	ancestors func(pid int) []api.Process
	orphans   query.HostOrphans
	audit     func(socket string) query.OpenAudit
	// commands are those that trace processes or end them themselves.
	commands func(*app) []*cobra.Command
}

// main runs one command line and gives its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	for _, l := range a.links {
		l.Close()
	}
	if _, ok := errors.AsType[*cli.Error](err); err != nil && !ok && !a.begun {
		err = cli.Usage("%w", err)
	}
	return a.exit(err)
}

// exit prints the error, if that was not done yet, and returns its exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return api.ExitOK
	}
	if e, ok := errors.AsType[*cli.Error](err); !ok || e.Err != nil {
		a.Complain(err)
	}
	return cli.ExitCode(err)
}

func (a *app) client(ctx context.Context) (api.Client, error) {
	return a.dial(ctx, a.socketPath())
}

// with connects to the daemon as long as do takes.
func (a *app) with(ctx context.Context, do func(api.Client) error) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

func (a *app) socketPath() string {
	return cmp.Or(a.socket, a.Env("LINEAGE_SOCKET"), api.DefaultSocket)
}

func (a *app) root() *cobra.Command {
	color := cli.Choice{Value: "auto", Words: []string{"auto", "always", "never"}}
	root := &cobra.Command{
		Use:   "lineage",
		Short: "Track every process that a command starts, and end them all",
		Long: `lineage tracks every process that a command starts, through double forks,
setsid, cleared environments and dead parents, using eBPF in the kernel. It
shows which command a process, a port or a file belongs to, and it can end all
of them.`,
		Example: `  sudo lineage run --name build -- make -j8    # everything ends with make
  lineage ls                                   # live sessions
  lineage why :8080                            # which session has this port?
  lineage end build                            # end all of it`,
		Version:       a.host.version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.Subcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			a.begun, a.Color = true, color.Value
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if f.Value.Type() == "string" && f.Value.String() == "" { // as of a variable that is not set: not the same as without it
					err = cli.Usage("%s: %w", cmd.Name(), cli.Invalid("--"+f.Name, "", "a text, or left out"))
				}
			})
			if err != nil {
				return err
			}
			return a.reach(cmd)
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if err = cli.FlagError(cmd, err); !cmd.HasParent() {
			return cli.Usage("%w", err)
		}
		return cli.Usage("%s: %w", cmd.Name(), err)
	})
	root.PersistentFlags().StringVar(&a.socket, "socket", "",
		"the `PATH` of the daemon's socket (default $LINEAGE_SOCKET, else "+api.DefaultSocket+")")
	root.PersistentFlags().Var(&color, "color", "colour the output `WHEN`: auto, always or never")
	root.Flags().BoolP("version", "V", false, "print the version of this command")
	root.SetVersionTemplate("lineage {{.Version}}\n")
	root.AddCommand(
		a.lsCommand(),
		a.treeCommand(),
		a.whyCommand(),
		a.eventsCommand(),
		a.historyCommand(),
		a.endCommand(),
		a.haltCommand(),
		a.waitCommand(),
		a.pauseCommand(),
		a.resumeCommand(),
		a.adoptCommand(),
		a.keepCommand(),
		a.topCommand(),
		mcpCommand(a.socketPath),
		exportCommand(a.socketPath),
		linkCommand(a.socketPath),
		a.policyCommand(),
		a.setupCommand(),
		a.hookCommand(),
		a.doctorCommand(),
		a.statusCommand(),
		a.stdioCommand(),
		a.versionCommand(),
	)
	root.AddCommand(a.host.commands(a)...)
	cli.AddHelp(root)
	completeFlags(root)
	return root
}
