package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// lsView is one of the lists that ls shows.
type lsView struct {
	flag, usage string
	chosen      bool
	columns     []string // that its table can have; nil: it has no table
	session     int      // 1: it may be of one SESSION
	list        func(ctx context.Context, c api.Client, session string) (*text.Listing, error)
}

// views are the lists other than that of sessions.
func (a *app) views() []lsView {
	return []lsView{
		{flag: "left", usage: "orphans, leftovers and zombies, of all sessions or of SESSION", columns: text.OrphanColumns, session: 1, list: query.Of(api.Client.Orphans, text.Orphans)},
		{flag: "calls", usage: "tool calls that have live processes, of all sessions or of SESSION", columns: text.CallColumns, session: 1, list: query.Of(api.Client.Orphans, text.Calls)},
		{flag: "outside", usage: "orphans of this host that are in no session", columns: text.HostOrphanColumns, list: func(ctx context.Context, c api.Client, _ string) (*text.Listing, error) {
			defer a.During(func(time.Time) string { return "lineage: reading /proc" })()
			return query.Outside(ctx, c, a.host.orphans)
		}},
	}
}

// chosenView is the view whose flag was given, or the list of sessions.
func chosenView(cmd *cobra.Command, sessions lsView, views []lsView) (lsView, error) {
	v := sessions
	for _, other := range views {
		switch {
		case !other.chosen:
			continue
		case v.flag != "":
			return v, exit.Usage("ls: give only one of --%s and --%s", v.flag, other.flag)
		}
		v = other
		for _, flag := range []string{"all", "sort", "state", "idle", "container", "pod"} {
			if cmd.Flags().Changed(flag) {
				return v, exit.Usage("ls: --%s is for the list of sessions, not with --%s", flag, v.flag)
			}
		}
	}
	return v, nil
}
