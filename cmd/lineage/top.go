package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui"
)

type topOptions struct {
	readOnly bool
	theme    choice
	ascii    bool
}

func (a *app) topCommand() *cobra.Command {
	o := topOptions{theme: choice{"auto", tui.Themes}}
	cmd := &cobra.Command{
		Use:   "top [SESSION]",
		Short: "Show sessions as a live tree, and end them from it",
		Long: `Show the tree of sessions as it changes, full screen: why each process belongs
to its session, what it holds, and how to end it. "?" lists the keys; q quits
and ends nothing.

Off a terminal it prints the tree once, as "lineage tree" does. For a screen
reader, "lineage tree --follow --plain" writes one line for each change.`,
		Args:              argsCount(0, 1, ""),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVar(&o.readOnly, "read-only", false, "end nothing, whatever is pressed")
	f.Var(&o.theme, "theme", "`auto`, contrast or mono (default $LINEAGE_THEME, else auto; mono with NO_COLOR)")
	f.BoolVar(&o.ascii, "ascii", false, "ASCII only")
	cmd.RegisterFlagCompletionFunc("theme", cobra.FixedCompletions(tui.Themes, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		theme, err := a.topTheme(o.theme.value, cmd.Flags().Changed("theme"))
		if err != nil {
			return err
		}
		session := ""
		if len(args) > 0 {
			session = args[0]
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		return a.top(cmd.Context(), c, session, tui.Options{ReadOnly: o.readOnly, Theme: theme, ASCII: o.ascii})
	}
	return cmd
}

// top shows the live tree on a terminal, elsewhere the tree of now.
func (a *app) top(ctx context.Context, c api.Client, session string, o tui.Options) error {
	out, ok := a.stdout.(*os.File)
	if _, isTerminal := terminal(a.stdout); !ok || !isTerminal || a.env("TERM") == "dumb" {
		trees, err := askTrees(ctx, c, session, false)
		if err != nil {
			return err
		}
		return a.print("table", treeListing(trees, session != "", o.ASCII))
	}
	if session != "" {
		s, err := c.Session(ctx, session)
		if err != nil {
			return err
		}
		o.Query.Session = s.ID
	}
	o.Now, o.Input, o.Output, o.Environ = a.now, a.stdin, out, os.Environ()
	return tui.Run(ctx, c, o)
}

// topTheme is the flag's, else the environment's. Who wants no colour gets none.
func (a *app) topTheme(flag string, given bool) (string, error) {
	theme := flag
	if env := a.env("LINEAGE_THEME"); env != "" && !given {
		if err := tui.CheckTheme(env); err != nil {
			return "", usage("top: LINEAGE_THEME: %w", err)
		}
		theme = env
	}
	if a.color.value == "never" || a.env("NO_COLOR") != "" && a.color.value != "always" {
		return "mono", nil
	}
	return theme, nil
}
