// Package view is what `lineage top` shows: a daemon, which may not run yet, or a
// recording; and more details from this machine's kernel.
package view

import (
	"context"
	"errors"
	"io/fs"
	"os/user"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/replay"
	"github.com/lineage-ebpf/lineage/tui"
)

// Connect returns a client for what is to be shown, and the one session to show; nil: all.
type Connect func(context.Context) (tui.Client, *api.Session, error)

// Daemon shows a daemon, with only one session unless session is "". If no daemon runs
// yet, the view waits for one; every other failure is an error now.
func Daemon(ctx context.Context, dial func(context.Context) (api.Client, error), session string) (Connect, error) {
	connect := func(ctx context.Context) (tui.Client, *api.Session, error) {
		c, err := dial(ctx)
		if err != nil || session == "" {
			return c, nil, err
		}
		s, err := c.Session(ctx, session)
		if err != nil {
			c.Close()
		}
		return c, s, err
	}
	c, s, err := connect(ctx)
	away, ok := errors.AsType[*api.UnreachableError](err)
	switch {
	case err == nil:
		return func(context.Context) (tui.Client, *api.Session, error) { return c, s, nil }, nil
	case ok && !errors.Is(away, fs.ErrPermission) && !errors.Is(away, api.ErrNotLineage):
		return connect, nil
	}
	return nil, err
}

// Recording shows a recording, with only one session unless session is "".
func Recording(ctx context.Context, p *replay.Player, session string) (Connect, error) {
	var s *api.Session
	if session != "" {
		var err error
		if s, err = p.Session(ctx, session); err != nil {
			return nil, err
		}
	}
	return func(context.Context) (tui.Client, *api.Session, error) { return recorded{p, p.Trees}, s, nil }, nil
}

// recorded is a recording as the view's client. It has no ports, and its events are
// those that the view draws.
type recorded struct {
	tui.Player
	trees func() []api.Tree
}

// Tree returns every process of a session.
func (r recorded) Tree(_ context.Context, s, _ string) (*api.Tree, error) {
	for _, t := range r.trees() {
		if t.Session.ID == s {
			return &t, nil
		}
	}
	return nil, api.NewError(api.CodeNotFound, s+": not in the recording", "")
}

func (r recorded) Leaks(context.Context, string) (*api.Leaks, error) { return &api.Leaks{}, nil }

func (r recorded) Events(context.Context, api.EventsQuery, func(*api.Event) error) error { return nil }

// User names a user, "" if this host does not know the uid.
func User(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}
