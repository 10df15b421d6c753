package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func (a *app) historyCommand() *cobra.Command {
	var q api.HistoryQuery
	var since, until string
	var everybody bool
	cmd := &cobra.Command{
		Use:   "history [SESSION]",
		Short: "List ended sessions, or show how one went",
		Long: `List the sessions that have ended, the last first, as the daemon keeps them on
disk; or show one of them: its receipt, and the processes that were left over,
with their ancestors; with --all every process that is remembered.`,
		Args:              argsCount(0, 1, "SESSION"),
		ValidArgsFunction: a.completeSession("ended"),
	}
	cmd.Flags().IntVar(&q.Limit, "limit", api.DefaultPage, "at most so many `sessions`; 0: all")
	cmd.Flags().BoolVarP(&everybody, "all", "a", false, "of one SESSION: all its processes")
	rangeFlags(cmd, &since, &until, "ended")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if q.Since, q.Until, err = timeRange("history", since, until, a.now()); err != nil {
			return err
		}
		if q.Limit < 0 {
			return usage("history: --limit %d: want 0 or more", q.Limit)
		}
		if len(args) > 0 && (since != "" || until != "" || cmd.Flags().Changed("limit")) {
			return usage("history: --since, --until and --limit are for the list, not for one SESSION")
		}
		if len(args) == 0 && everybody {
			return usage("history: --all is for one SESSION, not for the list")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		if len(args) > 0 {
			return a.pastSession(cmd.Context(), c, args[0], everybody, format.value)
		}
		list, err := allPages(cmd.Context(), c, q)
		if err != nil {
			return err
		}
		return a.print(format.value, historyListing(list))
	}
	return cmd
}

// pastSession shows a session that is over.
func (a *app) pastSession(ctx context.Context, c api.Client, name string, everybody bool, format string) error {
	s, err := c.Session(ctx, name)
	if err != nil {
		return err
	}
	if s.State != api.StateEnded {
		return &exitError{api.ExitNotFound, fmt.Errorf("history %s: it is %s, not over; see \"lineage tree %s\"", name, s.State, s.ID)}
	}
	r, err := c.Report(ctx, s.ID, 0)
	if err != nil {
		return err
	}
	t, err := c.Tree(ctx, s.ID, "all")
	if err != nil {
		return err
	}
	t.Session = s
	remembered := len(t.Nodes)
	if !everybody {
		keepLeftovers(t, r)
	}
	return a.print(format, pastListing(r, t, remembered-len(t.Nodes)))
}

// keepLeftovers takes all processes from the tree of a session that is over but
// its root, what the receipt has as left over, and their ancestors.
func keepLeftovers(t *api.Tree, r *api.Report) {
	nodes := make(map[api.Ref]*api.Node, len(t.Nodes))
	for i := range t.Nodes {
		nodes[t.Nodes[i].Ref] = &t.Nodes[i]
	}
	keep := make(map[api.Ref]bool)
	mark := func(ref api.Ref) {
		for n := nodes[ref]; n != nil && !keep[n.Ref]; {
			keep[n.Ref] = true
			if n.Creator == nil {
				return
			}
			n = nodes[*n.Creator]
		}
	}
	if len(t.Roots) > 0 {
		mark(t.Roots[0]) // the session's own, or the oldest that is remembered
	}
	for _, p := range r.Processes {
		if p.Leftover || p.Outcome == api.OutcomeLeft || p.Outcome == api.OutcomeKept {
			mark(p.Ref)
		}
	}
	dropped := func(ref api.Ref) bool { return !keep[ref] }
	t.Nodes = slices.DeleteFunc(t.Nodes, func(n api.Node) bool { return dropped(n.Ref) })
	t.Roots = slices.DeleteFunc(t.Roots, dropped)
	for i := range t.Nodes {
		t.Nodes[i].Children = slices.DeleteFunc(t.Nodes[i].Children, dropped)
	}
}

// allPages asks for pages until there are as many as wanted.
func allPages(ctx context.Context, c api.Client, q api.HistoryQuery) (*api.Sessions, error) {
	all := &api.Sessions{}
	want := q.Limit
	for {
		q.Limit = api.MaxPage
		if want > 0 {
			q.Limit = min(want-len(all.Items), api.MaxPage)
		}
		page, err := c.History(ctx, q)
		if err != nil {
			return nil, err
		}
		all.Items, all.Next = append(all.Items, page.Items...), page.Next
		if page.Next == "" || want > 0 && len(all.Items) >= want {
			return all, nil
		}
		q.Next = page.Next
	}
}

func historyListing(list *api.Sessions) listing {
	l := sessionListing(list)
	l.text = func(p *page) { writeHistory(p, list.Items) }
	return l
}

func writeHistory(p *page, sessions []api.Session) {
	var t table
	header := []string{"ID", "NAME", "ENDED", "DURATION", "REASON", "VERDICT", "PROCESSES", "CPU", "ROOT"}
	if p.wide {
		header = append(header, "STARTED", "UID", "PARENT", "PEAK", "LEVEL", "COMMAND")
	}
	t.row(header...)
	for i := range sessions {
		s := &sessions[i]
		row := []string{s.ID, cmp.Or(s.Name, "-"), wallTime(p, s.Ended), lasted(s), cmp.Or(s.EndReason, "-"), string(cmp.Or(s.Verdict, "-")),
			fmt.Sprint(s.Forks + 1), display.CPU(s.CPUSeconds), rootName(s)}
		if p.wide {
			row = append(row, wallTime(p, s.Started), fmt.Sprint(s.UID), cmp.Or(s.Parent, "-"), fmt.Sprint(s.Peak), fmt.Sprint(s.Level), rootCommand(p, s))
		}
		for i := range row {
			row[i] = display.Text(row[i])
		}
		t.paintedRow([]string{bold, "", "", "", "", verdictColor(s.Verdict)}, row...)
	}
	t.write(p)
}

// wallTime is a date with its time, however near.
func wallTime(p *page, t *time.Time) string {
	if t == nil {
		return "-" // of a session that went with its host nobody knows it
	}
	return t.In(p.now.Location()).Format(time.DateTime)
}

// lasted is from a session's start to its end.
func lasted(s *api.Session) string {
	if s.Started == nil || s.Ended == nil {
		return "-"
	}
	d := s.Ended.Sub(*s.Started)
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	}
	return display.Age(d)
}

func verdictColor(verdict api.Verdict) string {
	switch verdict {
	case api.VerdictClean:
		return ""
	case api.VerdictLeft:
		return red
	}
	return yellow
}

// pastDocument is `history SESSION -o json`.
type pastDocument struct {
	api.Head
	Session *api.Session `json:"session"`
	Report  *api.Report  `json:"report"`
	Roots   []api.Ref    `json:"roots"`
	Nodes   []api.Node   `json:"nodes"`
}

// pastListing shows a session that is over: what it was, how it ended, and who
// was in it, but for so many that were left out.
func pastListing(r *api.Report, t *api.Tree, leftOut int) listing {
	t.Session.Head, r.Head = api.Head{Kind: "session"}, api.Head{Kind: "report"}
	l := treeListing([]api.Tree{*t}, true, false)
	l.doc = pastDocument{head("history"), t.Session, r, append([]api.Ref{}, t.Roots...), append([]api.Node{}, t.Nodes...)}
	l.items = append([]any{t.Session, r}, l.items...)
	l.names = []string{t.Session.ID}
	draw := l.text
	l.text = func(p *page) {
		s := t.Session
		when := "when it ended is not known"
		if s.Ended != nil {
			when = fmt.Sprintf("ended %s, lasted %s", wallTime(p, s.Ended), lasted(s))
		}
		p.line("started %s, %s", wallTime(p, s.Started), when)
		writeReport(p, r)
		if by := r.EndedBy; by != nil {
			p.line("  ended by uid %d, pid %d %s", by.UID, by.PID, display.Text(by.Comm))
		}
		if r.VerdictWhy != "" {
			p.line("  %s", display.Text(r.VerdictWhy))
		}
		p.line("")
		draw(p)
		if leftOut > 0 {
			p.line("%s; --all shows them", count(leftOut, "more process", "more processes"))
		}
	}
	return l
}

func rangeFlags(cmd *cobra.Command, since, until *string, what string) {
	cmd.Flags().StringVar(since, "since", "", what+" at this `time` or later: 10m ago, or as 2026-03-04T12:00:00Z")
	cmd.Flags().StringVar(until, "until", "", what+" at this `time` or before")
}

// timeRange reads --since and --until.
func timeRange(command, since, until string, now time.Time) (from, to time.Time, err error) {
	for _, x := range []struct {
		flag, text string
		t          *time.Time
	}{{"since", since, &from}, {"until", until, &to}} {
		if x.text == "" {
			continue
		}
		if *x.t, err = api.ParseTime(x.text, now); err != nil {
			return from, to, usage("%s: --%s: %w", command, x.flag, err)
		}
	}
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		return from, to, usage("%s: --since %s is after --until %s", command, since, until)
	}
	return from, to, nil
}
