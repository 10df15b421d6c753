// Package view is what `lineage top` shows: a daemon, which may not run yet.
package view

import (
	"context"
	"errors"
	"io/fs"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui"
)

type Connect func(context.Context) (tui.Client, error)

// Daemon shows a daemon. If none runs yet, the view waits for one; every other failure is an error now.
func Daemon(ctx context.Context, dial func(context.Context) (api.Client, error)) (Connect, error) {
	c, err := dial(ctx)
	away, ok := errors.AsType[*api.UnreachableError](err)
	switch {
	case err == nil:
		return func(context.Context) (tui.Client, error) { return c, nil }, nil
	case ok && !errors.Is(away, fs.ErrPermission) && !errors.Is(away, api.ErrNotLineage):
		return func(ctx context.Context) (tui.Client, error) { return dial(ctx) }, nil
	}
	return nil, err
}
