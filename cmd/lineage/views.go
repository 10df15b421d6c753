package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
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
		{flag: "left", usage: "orphans, leftovers and zombies, of all sessions or of SESSION", columns: text.OrphanColumns, session: 1, list: left},
		{flag: "calls", usage: "tool calls that have live processes, of all sessions or of SESSION", columns: text.CallColumns, session: 1, list: calls},
		{flag: "growth", usage: "growth per hour, of all sessions or of SESSION", session: 1, list: growth},
		{flag: "outside", usage: "orphans of this host that are in no session", columns: text.HostOrphanColumns, list: a.outside},
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
		for _, flag := range []string{"all", "watch", "sort", "state", "uid", "idle"} {
			if cmd.Flags().Changed(flag) {
				return v, exit.Usage("ls: --%s is for the list of sessions, not with --%s", flag, v.flag)
			}
		}
	}
	return v, nil
}

// left lists what the members of a session, or of all sessions, left behind.
func left(ctx context.Context, c api.Client, session string) (*text.Listing, error) {
	list, err := c.Orphans(ctx, session)
	if err != nil {
		return nil, err
	}
	return text.Orphans(list), nil
}

// calls lists what is alive of the tool calls of a session, or of all sessions.
func calls(ctx context.Context, c api.Client, session string) (*text.Listing, error) {
	list, err := c.Orphans(ctx, session)
	if err != nil {
		return nil, err
	}
	return text.Calls(list), nil
}

// growth shows how a session, or all sessions and the host, grow.
func growth(ctx context.Context, c api.Client, session string) (*text.Listing, error) {
	leaks, err := c.Leaks(ctx, session)
	if err != nil {
		return nil, err
	}
	return text.Leaks(leaks), nil
}

// outside lists orphans of the host that are in no session.
func (a *app) outside(ctx context.Context, c api.Client, _ string) (*text.Listing, error) {
	if a.host.orphans == nil {
		return nil, exit.Errorf(api.ExitUnsupported, "ls: --outside reads /proc of a Linux host")
	}
	orphans, unknown, err := a.host.orphans(ctx)
	if err != nil {
		return nil, fmt.Errorf("ls: %w", err)
	}
	doc := text.HostOrphans{Items: []text.HostOrphan{}, Unknown: unknown}
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orphans {
		if o.PID == v.PID {
			continue // the daemon itself
		}
		p, err := c.Process(ctx, o.Ref.String())
		if notFound(err) || err == nil && p.Session != "" {
			continue // it is gone, or "lineage ls --left" lists it
		}
		if err == nil {
			o.Ref = p.Ref // with its exact start
		}
		o.Ports = slices.DeleteFunc(o.Ports, func(port api.Port) bool {
			if port.PID == 0 || port.PID == o.PID {
				return false
			}
			holder, err := c.Process(ctx, strconv.Itoa(port.PID))
			return err == nil && holder.Session != "" // a session that the orphan started
		})
		if !o.Holds() {
			continue
		}
		doc.Items = append(doc.Items, o)
	}
	return text.OutsideOrphans(&doc), nil
}
