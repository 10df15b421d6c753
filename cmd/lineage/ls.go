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
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
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

// lsLong is the help of ls.
const lsLong = `List the live sessions that you may see: your own, as root those of all users.

  NAME      in parentheses: of the container that a session without a name holds
  STATE     leftover: active, but its root is gone
  LIVE      live processes, nested sessions included
  ORPHANS   those whose creator is dead, nested sessions included
  ZOMBIES   dead processes that their parent has not waited for
  RSS       memory of the live processes, nested sessions included
  AGE       of an ended session: how long it lasted
  ROOT      the process that the session was opened for, and what it ran first

A terminal that is too narrow gets fewer columns; a pipe always gets the same
ones.

--left lists live processes whose creator is dead (orphan), those whose
session's root is gone (leftover), and dead ones that their parent has not
waited for (zombie). Work that members handed to other daemons, such as tmux or
docker, is listed with the evidence for it (brokered); or, if no process was
found, with the process that asked (brokered, unattributed). "lineage end
--left" ends leftovers, "lineage end --nudge" is for zombies.

--calls lists live processes by the tool call of an agent that started them, as
the agent's hooks reported it: how long it took, what it has left, and how many
CPUs that uses now. "a or b": these calls were open at once, and each process is
of one of them. "lineage end --call ID" ends what one call has left.

--growth shows, per session and (if permitted) for the host, the processes and
their memory, the growth per hour, and when that exhausts the nearest limit: the
host's memory or PIDs, or the session's max_rss or max_processes. The same per
command, and the ports and locks held. Growth is the median slope over the last
three hours at most, sampled once a minute while there is a session; in the
first ten minutes there is not enough data. Memory that processes share is
counted in each of them.

--outside lists orphans that are in no session: children of PID 1 that belong to
no system service and hold a deleted directory, a dead terminal or a port. A
port that one of their descendants holds counts, too. "lineage adopt PID" makes
such a process a session that can be ended.`

type lsOptions struct {
	all, watch  bool
	sort, state choice
	uid         int
	idle        time.Duration // 0: idle or not
}

func (a *app) lsCommand() *cobra.Command {
	o := lsOptions{
		sort:  choice{"", []string{"age", "cpu", "id", "live", "name", "orphans", "rss", "state"}},
		state: choice{"", []string{"active", text.Leftover, "ending", "condemned", "ended"}},
	}
	views := a.views()
	cmd := &cobra.Command{
		Use:     "ls [--left | --calls | --growth] [SESSION]",
		Aliases: []string{"ps"},
		Short:   "List sessions, what they left behind, and how they grow",
		Long:    lsLong,
		Example: `  lineage ls --all --sort rss       # ended ones too, most memory first
  lineage ls --watch --state active # redraw every second
  lineage ls --left build           # what is left of one session
  lineage ls --growth --json | jq '.items[].hours_to_exhaustion'`,
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.all, "all", "a", false, "ended sessions too")
	f.BoolVarP(&o.watch, "watch", "w", false, "show the list again every second, until Ctrl-C")
	f.Var(&o.sort, "sort", "sort by `COLUMN`: "+strings.Join(o.sort.words, ", "))
	f.Var(&o.state, "state", "only sessions in this `STATE`: "+strings.Join(o.state.words, ", "))
	ending.IdleFlag(f, &o.idle, "only sessions that were idle for this `TIME`; see \"lineage end --help\"")
	f.IntVar(&o.uid, "uid", -1, "only sessions of this `UID` (default all)")
	f.Lookup("uid").DefValue = "0" // no "(default -1)" in the help
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(o.sort.words, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(o.state.words, cobra.ShellCompDirectiveNoFileComp))
	known := text.SessionColumns
	for i := range views {
		v := &views[i]
		f.BoolVar(&v.chosen, v.flag, false, v.usage)
		known = append(known[:len(known):len(known)], slices.DeleteFunc(slices.Clone(v.columns), func(c string) bool { return slices.Contains(known, c) })...)
	}
	format := formatFlag(cmd)
	remote := hostFlag(cmd)
	takeColumns := a.columnFlags(cmd, format, known...)
	sessions := lsView{columns: text.SessionColumns, list: o.list}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := chosenView(cmd, sessions, views)
		if err != nil {
			return err
		}
		if err := argsCount(0, v.session, "")(cmd, args); err != nil {
			return err
		}
		switch {
		case o.uid < 0 && cmd.Flags().Changed("uid"):
			return exit.Usage("ls: %w", exit.Invalid("--uid", o.uid, "0 or more"))
		case o.idle > 0 && (o.all || o.state.value == "ended"):
			return exit.Usage("ls: --idle is for live sessions, not with --all or --state ended")
		case o.watch && format.value != "table" && format.value != "wide":
			return exit.Usage(`ls: --watch draws for people; use "lineage events -o jsonl"`)
		case v.flag == "outside" && len(*remote) > 0:
			return exit.Usage("ls: --outside is for this host, not with -H")
		}
		if err := takeColumns(v.columns != nil, v.columns); err != nil {
			return err
		}
		switch {
		case o.watch && len(*remote) > 0:
			return exit.Usage("ls: --watch is for this host, not with -H")
		case o.watch:
			return a.watchSessions(cmd.Context(), &o, format.value)
		}
		return a.answer(cmd.Context(), *remote, format.value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			return v.list(ctx, c, strings.Join(args, ""))
		})
	}
	return cmd
}

// list requests the wanted sessions, in the wanted order.
func (o *lsOptions) list(ctx context.Context, c api.Client, _ string) (*text.Listing, error) {
	state := "live"
	if o.idle > 0 {
		state = "idle"
	} else if o.all || o.state.value == "ended" {
		state = "all"
	}
	list, err := c.Sessions(ctx, state, "")
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(s api.Session) bool {
		return !o.inState(&s) || s.IdleSeconds < o.idle.Seconds() || o.uid >= 0 && s.UID != o.uid
	})
	if order := orders[o.sort.value]; order != nil {
		slices.SortStableFunc(list.Items, func(a, b api.Session) int { return order(&a, &b) })
	}
	l := text.Sessions(list)
	if len(list.Items) == 0 {
		l.Empty = `no session; start one with "lineage run -- CMD"; ended ones: "ls -a"`
		if o.idle > 0 {
			l.Empty = "no session was idle for " + o.idle.String()
		}
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
		l, err := o.list(ctx, c, "")
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
