package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/view"
	"github.com/lineage-ebpf/lineage/tui"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

func (a *app) topCommand() *cobra.Command {
	o := tui.Options{Select: func(words []string) (*api.Selection, error) {
		return cli.ParseSelection(words,
			a.host.euid)
	}}
	theme := cli.Choice{Value: "auto", Words: ink.Themes}
	cmd := &cobra.Command{
		Use:   "top [SESSION...]",
		Short: "Show sessions as a live tree, and end them from it",
		Long: `Show the tree of sessions as it changes, full screen: why each process belongs
to its session, what it holds, and how to end it. "?" lists the keys; q quits
and ends nothing. Without a daemon it waits for one.

With SESSION it begins with a filter, which f changes. For another host, run it
there: "ssh -t HOST sudo lineage top".

Off a terminal it prints the tree once, as "lineage tree" does. For a screen
reader, "LC_ALL=C lineage tree" draws it in ASCII, and "lineage events" writes
one line for each change.`,
		Example: `  sudo lineage top                     # all sessions
  sudo lineage top web                 # one session`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVar(&o.ReadOnly, "read-only", false, "end nothing, whatever is pressed")
	f.Var(&theme, "theme", "`THEME`: auto, dark, light or mono (default auto; mono with NO_COLOR)")
	f.Lookup("theme").DefValue = "" // the usage names it
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Theme = a.topTheme(theme.Value)
		sel, err := o.Select(args)
		if err != nil {
			return cli.Usage("top: %w", err)
		}
		o.Filter, o.Input, o.ASCII = strings.Join(args, " "), a.Stdin, display.ASCIILocale(a.Env)
		if _, screen := cli.Terminal(a.Stdout); !screen || a.Env("TERM") == "dumb" {
			return a.answer(cmd.Context(), nil, "table", askTree(sel.OrAll(), false))
		}
		return a.liveTop(cmd.Context(), o)
	}
	return cmd
}

func (a *app) liveTop(ctx context.Context, o tui.Options) (err error) {
	if o.Connect, err = view.Daemon(ctx, a.client); err != nil {
		return err
	}
	o.Now, o.Environ = a.Now, os.Environ()
	o.Output, _ = a.Stdout.(*os.File)
	return tui.Run(ctx, o)
}

// topTheme is the flag's. Without colours (--color never, NO_COLOR) it is mono.
func (a *app) topTheme(flag string) string {
	if a.Color == "never" || a.Env("NO_COLOR") != "" && a.Color != "always" {
		return "mono"
	}
	return flag
}
