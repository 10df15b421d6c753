package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// refresh is how often a watched list is requested.
const refresh = time.Second

// orders are the values of ls --sort: text in ascending order, numbers and ages with the
// largest first.
var orders = map[string]func(a, b *api.Session) int{
	"age": func(a, b *api.Session) int {
		at := func(s *api.Session) time.Time {
			if s.Started == nil {
				return time.Time{}
			}
			return *s.Started
		}
		return at(a).Compare(at(b))
	},
	"cpu":     func(a, b *api.Session) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) },
	"id":      func(a, b *api.Session) int { return cmp.Compare(a.ID, b.ID) },
	"live":    func(a, b *api.Session) int { return cmp.Compare(b.Live, a.Live) },
	"name":    func(a, b *api.Session) int { return cmp.Compare(a.Name, b.Name) },
	"orphans": func(a, b *api.Session) int { return cmp.Compare(b.Orphans, a.Orphans) },
	"rss":     func(a, b *api.Session) int { return cmp.Compare(b.RSSBytes, a.RSSBytes) },
	"state":   func(a, b *api.Session) int { return cmp.Compare(a.State, b.State) },
}

type lsOptions struct {
	all, watch  bool
	sort, state choice
	uid         int
}

func (a *app) lsCommand() *cobra.Command {
	o := lsOptions{
		sort:  choice{"", []string{"age", "cpu", "id", "live", "name", "orphans", "rss", "state"}},
		state: choice{"", []string{"active", text.Leftover, "ending", "condemned", "ended"}},
	}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"ps"},
		Short:   "List sessions",
		Long: `List the live sessions that you may see: your own, as root those of all users.

  NAME      in parentheses: of the container that a session without a name holds
  STATE     leftover: active, but its root is gone
  LIVE      live processes, nested sessions included
  ORPHANS   those whose creator is dead, nested sessions included
  ZOMBIES   dead processes that their parent has not waited for
  RSS       memory of the live processes, nested sessions included
  AGE       of an ended session: how long it lasted
  ROOT      the process that the session was opened for, and what it ran first

A terminal that is too narrow gets fewer columns; a pipe always gets the same
ones.`,
		Example: `  lineage ls                        # live sessions
  lineage ls --all --sort rss       # ended ones too, most memory first
  lineage ls --watch --state active # redraw every second
  lineage ls --columns id,name,root --no-headers`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.all, "all", "a", false, "ended sessions too")
	f.BoolVarP(&o.watch, "watch", "w", false, "show the list again every second, until Ctrl-C")
	f.Var(&o.sort, "sort", "sort by `COLUMN`: "+strings.Join(o.sort.words, ", "))
	f.Var(&o.state, "state", "only sessions in this `STATE`: "+strings.Join(o.state.words, ", "))
	f.IntVar(&o.uid, "uid", -1, "only sessions of this `UID` (default all)")
	f.Lookup("uid").DefValue = "0" // no "(default -1)" in the help
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(o.sort.words, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(o.state.words, cobra.ShellCompDirectiveNoFileComp))
	format := formatFlag(cmd)
	remote := hostFlag(cmd)
	takeColumns := a.columnFlags(cmd, format, text.SessionColumns...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.uid < 0 && cmd.Flags().Changed("uid"):
			return exit.Usage("ls: %w", exit.Invalid("--uid", o.uid, "0 or more"))
		case o.watch && format.value != "table" && format.value != "wide":
			return exit.Usage(`ls: --watch draws for people; use "lineage events -o jsonl"`)
		}
		if err := takeColumns(true, text.SessionColumns); err != nil {
			return err
		}
		switch {
		case o.watch && len(*remote) > 0:
			return exit.Usage("ls: --watch is for this host, not with -H")
		case o.watch:
			return a.watchSessions(cmd.Context(), &o, format.value)
		}
		return a.answer(cmd.Context(), *remote, format.value, o.list)
	}
	return cmd
}

// list requests the wanted sessions, in the wanted order.
func (o *lsOptions) list(ctx context.Context, c api.Client) (*text.Listing, error) {
	state := "live"
	if o.all || o.state.value == "ended" {
		state = "all"
	}
	list, err := c.Sessions(ctx, state, "")
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(s api.Session) bool {
		return !o.inState(&s) || o.uid >= 0 && s.UID != o.uid
	})
	if order := orders[o.sort.value]; order != nil {
		slices.SortStableFunc(list.Items, func(a, b api.Session) int { return order(&a, &b) })
	}
	l := text.Sessions(list)
	if len(list.Items) == 0 {
		l.Empty = `no session; start one with "lineage run -- CMD"; ended ones: "ls -a"`
	}
	return l, nil
}

// inState reports whether a session is in the wanted state. A leftover is active, too.
func (o *lsOptions) inState(s *api.Session) bool {
	switch o.state.value {
	case "":
		return true
	case text.Leftover:
		return text.IsLeftover(s)
	}
	return string(s.State) == o.state.value
}

// watchSessions shows the list again and again.
func (a *app) watchSessions(ctx context.Context, o *lsOptions, format string) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := a.UntilInterrupt(ctx)
	defer stop()
	screen := a.Screen(format == "wide")
	for {
		l, err := o.list(ctx, c)
		if ctx.Err() != nil {
			return nil // the user interrupted
		}
		if err != nil {
			return err
		}
		draw := l.Text
		if _, tty := console.Terminal(a.Stdout); tty && l.Empty != "" {
			draw = func(p *text.Page) { p.Line("%s", l.Empty) }
		}
		if err := screen.Draw(draw); err != nil {
			return err
		}
		select {
		case <-time.After(refresh):
		case <-ctx.Done():
			return nil
		}
	}
}
