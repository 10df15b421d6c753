// Package view is what `lineage top` shows: a daemon, which may not run yet, or those of
// other hosts; and more details from this machine's kernel.
package view

import (
	"context"
	"errors"
	"io/fs"
	"os/user"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
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

// User names a user, "" if this host does not know the uid.
func User(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}
