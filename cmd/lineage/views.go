package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type lsView struct {
	flag, usage string
	chosen      bool
	columns     []string // that its table can have
	list        func(ctx context.Context, c api.Client, sel *api.Selection) (*text.Listing, error)
}

// views are the lists other than that of sessions.
func (a *app) views() []lsView {
	return []lsView{
		{flag: "left", usage: "orphans, leftovers and zombies of the sessions",
			columns: text.OrphanColumns, list: query.Left(text.Orphans)},
		{flag: "calls", usage: "tool calls of the sessions that have live processes",
			columns: text.CallColumns, list: query.Left(text.Calls)},
		{
			flag:    "outside",
			usage:   "orphans of this host that are in no session",
			columns: text.HostOrphanColumns,
			list: func(ctx context.Context, c api.Client, _ *api.Selection) (*text.Listing, error) {
				defer a.During(func(time.Time) string { return "lineage: reading /proc" })()
				return query.Outside(ctx, c, a.host.orphans)
			},
		},
		{flag: "equal", usage: "with --left: group equal live processes",
			columns: text.EqualColumns, list: query.Equal},
	}
}

// chosenView is the view whose flag was given; nil: the list of sessions.
func chosenView(cmd *cobra.Command, views []lsView) (v *lsView, err error) {
	for i := range views {
		switch {
		case !views[i].chosen:
			continue
		case views[i].flag == "equal" && (v == nil || v.flag != "left"):
			return nil, cli.Usage("ls: --equal is for --left")
		case v != nil && views[i].flag != "equal":
			return nil, cli.Usage("ls: give only one of --%s and --%s", v.flag, views[i].flag)
		}
		v = &views[i]
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Name == "all" || f.Name == "sort" {
				err = cli.Usage("ls: --%s is for the list of sessions, not with --%s", f.Name, v.flag)
			}
		})
	}
	return v, err
}
