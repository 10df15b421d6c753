package tui

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/dialog"
	"github.com/lineage-ebpf/lineage/tui/events"
	"github.com/lineage-ebpf/lineage/tui/feed"
)

// Player is what a recording can answer.
type Player interface {
	feed.Watcher
	dialog.Client
	Why(ctx context.Context, ref string) (*api.Why, error)
}

// Client is what the view needs from an api.Client.
type Client interface {
	Player
	events.Client
	Tree(ctx context.Context, s, dead string) (*api.Tree, error)
	Leaks(ctx context.Context, session string) (*api.Leaks, error)
}
