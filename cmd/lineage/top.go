package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/flags"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/view"
	"github.com/lineage-ebpf/lineage/tui"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/saved"
)

func (a *app) topCommand() *cobra.Command {
	var o tui.Options
	var input string
	var speed float64
	var plain bool
	theme := flags.Choice{Value: "auto", Words: ink.Themes}
	cmd := &cobra.Command{
		Use:   "top [SESSION]",
		Short: "Show sessions as a live tree, and end them from it",
		Long: `Show the tree of sessions as it changes, full screen: why each process belongs
to its session, what it holds, and how to end it. "?" lists the keys; q quits
and ends nothing. Without a daemon it waits for one.

With -H it shows several hosts, each as a row around its sessions. A host that
cannot be reached says why, and is tried again.

With --input it plays a recording back, without a daemon and without root.

Off a terminal it prints the tree once, as "lineage tree" does. For a screen
reader, "lineage tree --plain" draws it in ASCII, and "lineage events" writes
one line for each change.

Folds, order and columns are remembered in $XDG_STATE_HOME/lineage/top.json.`,
		Example: `  sudo lineage top                     # all sessions
  sudo lineage top web --mouse         # one session, with the mouse
  lineage top -H web1,web2             # two hosts, over ssh
  lineage top --input build.jsonl      # a recording`,
		Args:              flags.Args(0, 1, ""),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.StringVarP(&input, "input", "i", "", "play back a recording `FILE` (lineage events -o jsonl --snapshot > FILE); - is stdin")
	f.Float64Var(&speed, "speed", 1, "with --input: play back `N` times as fast; 0: all of it at once")
	f.BoolVar(&o.ReadOnly, "read-only", false, "end nothing, whatever is pressed")
	f.BoolVar(&o.Mouse, "mouse", false, "select, fold, sort and scroll with the mouse")
	f.Var(&theme, "theme", "`THEME`: auto, dark, light, contrast or mono (default $LINEAGE_THEME, else auto; mono with NO_COLOR)")
	f.Lookup("theme").DefValue = "" // the usage names it
	f.BoolVar(&plain, "ascii", false, "ASCII only (default: as the locale says)")
	cmd.RegisterFlagCompletionFunc("theme", cobra.FixedCompletions(ink.Themes, cobra.ShellCompDirectiveNoFileComp))
	remote := hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.Theme, err = a.topTheme(theme.Value, cmd.Flags().Changed("theme")); err != nil {
			return err
		}
		session := strings.Join(args, "")
		o.Input, o.ASCII = a.Stdin, plain
		if !cmd.Flags().Changed("ascii") {
			o.ASCII = display.ASCIILocale(a.Env)
		}
		switch {
		case input == "" && cmd.Flags().Changed("speed"):
			return exit.Usage("top: --speed is for a recording; name it with --input")
		case len(*remote) > 0 && (input != "" || session != ""):
			return exit.Usage("top: SESSION and --input are for one host, not with -H")
		case len(*remote) > view.MostHosts:
			return exit.Usage("top: %d hosts are too many: at most %d can be watched at once", len(*remote), view.MostHosts)
		case speed < 0 || math.IsNaN(speed) || math.IsInf(speed, 0):
			return exit.Usage("top: %w", exit.Invalid("--speed", speed, "0 or more"))
		case input != "" && !a.fullScreen():
			return a.recordedTree(treeOptions{input: input, plain: o.ASCII}, session, "table")
		case input != "":
			return a.recordedTop(cmd.Context(), input, speed, session, o)
		case !a.fullScreen():
			return a.answer(cmd.Context(), *remote, "table", treeOptions{plain: o.ASCII}.ask(session))
		case len(*remote) > 0:
			return a.topOnHosts(cmd.Context(), *remote, o)
		}
		return a.liveTop(cmd.Context(), session, o)
	}
	return cmd
}

// fullScreen reports whether stdout is a terminal that can be drawn on.
func (a *app) fullScreen() bool {
	_, ok := console.Terminal(a.Stdout)
	return ok && a.Env("TERM") != "dumb"
}

// topOnHosts shows the daemons of other hosts.
func (a *app) topOnHosts(ctx context.Context, list hosts.List, o tui.Options) error {
	if a.socket != "" {
		return errSocketWithHosts
	}
	o.Connect, o.Hosts = view.Hosts(list, a.dialHost), true
	return a.top(ctx, o)
}

// liveTop shows a daemon.
func (a *app) liveTop(ctx context.Context, session string, o tui.Options) (err error) {
	if o.Connect, err = view.Daemon(ctx, a.client, session); err != nil {
		return err
	}
	o.Tasks, o.User = view.Tasks, view.User
	return a.top(ctx, o)
}

// recordedTop plays a recording back. If it comes from stdin, keys are read from our
// controlling terminal.
func (a *app) recordedTop(ctx context.Context, input string, speed float64, session string, o tui.Options) error {
	r, done, err := a.recording(input, speed)
	if err != nil {
		return err
	}
	defer done()
	o.Source = filepath.Base(input)
	if input == "-" {
		o.Source, o.Input = "stdin", nil
	}
	if o.Connect, err = view.Recording(ctx, r, session); err != nil {
		return err
	}
	if err := a.top(ctx, o); err != nil {
		return err
	}
	if r.Cut() {
		a.Say("%s: the last line is cut off and was left out", input)
	}
	return nil
}

// top shows the view on this terminal.
func (a *app) top(ctx context.Context, o tui.Options) error {
	o.Now, o.Environ = a.Now, os.Environ()
	o.Output, _ = a.Stdout.(*os.File)
	o.Square = ink.SquareTerminal(a.Env("TERM"))
	o.State = saved.File(a.Env)
	return tui.Run(ctx, o)
}

// topTheme is the flag's, else the environment's. Without colours (--color never, NO_COLOR) it is mono.
func (a *app) topTheme(flag string, given bool) (string, error) {
	theme := flag
	if env := a.Env("LINEAGE_THEME"); env != "" && !given {
		if err := ink.CheckTheme(env); err != nil {
			return "", exit.Usage("top: LINEAGE_THEME: %w", err)
		}
		theme = env
	}
	if a.Color == "never" || a.Env("NO_COLOR") != "" && a.Color != "always" {
		return "mono", nil
	}
	return theme, nil
}
