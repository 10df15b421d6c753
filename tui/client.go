package tui

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/feed"
	"github.com/lineage-ebpf/lineage/tui/panes"
)

// Client is what the view needs from an api.Client.
type Client interface {
	feed.Watcher
	panes.DialogClient
	panes.EventsClient
	Why(ctx context.Context, ref string) (*api.Why, error)
	Tree(ctx context.Context, s, dead string) (*api.Tree, error)
	Leaks(ctx context.Context, session string) (*api.Leaks, error)
}
