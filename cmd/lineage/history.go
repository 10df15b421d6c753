package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/plain"
)

func (a *app) historyCommand() *cobra.Command {
	var q api.HistoryQuery
	var since, until string
	cmd := &cobra.Command{
		Use:   "history [SESSION]",
		Short: "List ended sessions, or show how one went",
		Long: `List the sessions that have ended, the last first, as the daemon keeps them on
disk; or show one of them: its receipt, and the processes that are remembered.`,
		Args:              argsCount(0, 1, "SESSION"),
		ValidArgsFunction: a.completeSession("ended"),
	}
	cmd.Flags().IntVar(&q.Limit, "limit", api.DefaultPage, "at most so many `sessions`; 0: all")
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
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		if len(args) > 0 {
			return a.pastSession(cmd.Context(), c, args[0], format.value)
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
func (a *app) pastSession(ctx context.Context, c api.Client, name, format string) error {
	s, err := c.Session(ctx, name)
	if err != nil {
		return err
	}
	if s.State != "ended" {
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
	return a.print(format, pastListing(r, t))
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
		row := []string{s.ID, or(s.Name, "-"), wallTime(p, s.Ended), lasted(s), or(s.EndReason, "-"), or(s.Verdict, "-"),
			fmt.Sprint(s.Forks + 1), plain.CPU(s.CPUSeconds), rootName(s)}
		if p.wide {
			row = append(row, wallTime(p, s.Started), fmt.Sprint(s.UID), or(s.Parent, "-"), fmt.Sprint(s.Peak), fmt.Sprint(s.Level), rootCommand(p, s))
		}
		for i := range row {
			row[i] = plain.Text(row[i])
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
	return plain.Age(d)
}

func verdictColor(verdict string) string {
	switch verdict {
	case "clean":
		return ""
	case "left":
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
// was in it.
func pastListing(r *api.Report, t *api.Tree) listing {
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
			p.line("  ended by uid %d, pid %d %s", by.UID, by.PID, plain.Text(by.Comm))
		}
		if r.VerdictWhy != "" {
			p.line("  %s", plain.Text(r.VerdictWhy))
		}
		p.line("")
		draw(p)
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
