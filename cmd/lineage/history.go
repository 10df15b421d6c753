package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/html"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

func (a *app) historyCommand() *cobra.Command {
	var q api.HistoryQuery
	var since, until, page string
	var everybody, check bool
	cmd := &cobra.Command{
		Use:   "history [SESSION... | HASH]",
		Short: "List ended sessions, or show how one ended",
		Long: `List the ended sessions that the daemon keeps on disk, the last one first. With
SESSION, show one: its receipt, and the processes that its end had to end, with
their ancestors; with --all, every process that is remembered. If several had
this name: the last one. A pattern, several names or flags list those.

With --html, write SESSION to FILE as one page with its receipt, processes,
timeline and tool calls, as far as they are kept; any browser opens it, without
network.

With --verify, check each receipt against the kernel's counts and the audit log,
and the log for missing receipts and changed and missing records, but not when
sessions began, their commands and delegated work; exit with 1 if something does
not fit. Who can write the log can replace it or cut its tail: with HASH, which
receipts and "lineage status" show, check that it still has that record.`,
		Example: `  lineage history --since 24h         # what ended today
  lineage history build               # how it ended, and what had to be ended
  lineage history build --all         # with all its processes
  sudo lineage history --verify       # can what is recorded be true?`,
		ValidArgsFunction: a.completeSession("ended"),
	}
	cmd.Flags().IntVar(&q.Limit, "limit", api.DefaultPage, "at most `N` sessions; 0: all")
	cmd.Flags().BoolVarP(&everybody, "all", "a", false, "with SESSION: show all its processes")
	cmd.Flags().BoolVar(&check, "verify", false, "check all receipts and the audit log of this host")
	cmd.Flags().StringVar(&page, "html", "", "with SESSION: write it to `FILE` as a page for browsers")
	rangeFlags(cmd, &since, &until, "ended")
	sel := cli.Selection(cmd, a.host.euid)
	format := formatFlag(cmd)
	remote := a.hostFlag(cmd)
	takeColumns := a.columnFlags(cmd, format, text.HistoryColumns...)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		paged, picked := cmd.Flags().Changed("html"), since+until != "" || cmd.Flags().Changed("limit")
		if q.Since, q.Until, err = timeRange("history", since, until, a.Now()); err != nil {
			return err
		}
		one := sel.One()
		switch {
		case check && (everybody || paged || picked || len(*remote) > 0 ||
			len(args) > 1 || sel.Filters()):
			return cli.Usage("history: --verify is for all of this host, only with one HASH and -o")
		case check:
			return verifyHistory(cmd.Context(), a, format.Value, args)
		case q.Limit < 0:
			return cli.Usage("history: %w", cli.Invalid("--limit", q.Limit, "0 or more"))
		case one && picked:
			return cli.Usage("history: --since, --until and --limit are for the list, not for one SESSION")
		case !one && everybody:
			return cli.Usage("history: --all is for one SESSION, not for the list")
		case paged && (!one || everybody || len(*remote) > 0 || cmd.Flags().Changed("output")):
			return cli.Usage("history: --html is for one SESSION of this host, without --all and -o")
		}
		if err := takeColumns(!one, text.HistoryColumns); err != nil {
			return err
		}
		return a.answer(cmd.Context(), *remote, format.Value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			if paged {
				return &text.Listing{Text: func(*text.Page) {}}, writePage(ctx, c, args[0], page)
			}
			if one {
				return query.Past(ctx, c, args[0], everybody)
			}
			list, err := query.History(ctx, c, q, sel)
			if err != nil {
				return nil, err
			}
			l := text.History(list)
			if len(list.Items) == 0 {
				l.Empty = "no ended session is recorded"
				if since+until != "" {
					l.Empty = "no ended session in this period"
				}
			}
			return l, nil
		})
	}
	return cmd
}

func verifyHistory(ctx context.Context, a *app, format string, args []string) (err error) {
	var head access.ChainHead
	if len(args) > 0 {
		if head, err = access.ParseChainHead(args[0]); err != nil {
			return cli.Usage("history: %w", cli.Invalid("HASH", args[0], err.Error()))
		}
	}
	if a.host.euid() != 0 {
		return cli.Errorf(api.ExitDenied,
			"history: --verify reads the audit log, which only root can, on its host")
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	began := a.Now()
	past, err := query.History(ctx, c, api.HistoryQuery{}, &api.Selection{All: true})
	if err != nil {
		return err
	}
	v, err := query.Verify(ctx, c, past, a.host.audit(a.socketPath()), head, began)
	if err != nil {
		return err
	}
	if err = a.Print(format, query.VerificationText(v)); err == nil && len(v.Findings) > 0 {
		err = cli.Silent(api.ExitFailed)
	}
	return err
}

func writePage(ctx context.Context, c api.Client, session, name string) error {
	s, err := query.Ended(ctx, c, session)
	if err != nil {
		return err
	}
	return html.Save(ctx, c, s, name)
}

func rangeFlags(cmd *cobra.Command, since, until *string, what string) {
	cmd.Flags().StringVar(since, "since", "",
		what+" at this `TIME` or later: 10m ago, yesterday, or as 2026-03-04T12:00:00Z")
	cmd.Flags().StringVar(until, "until", "", what+" at this `TIME` or before")
}

func timeRange(command, since, until string, now time.Time) (from, to time.Time, err error) {
	if from, to, err = api.ParseRange("--", since, until, now); err != nil {
		err = cli.Usage("%s: %w", command, err)
	}
	return from, to, err
}
