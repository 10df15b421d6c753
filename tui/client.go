package tui

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

type Client interface {
	picture.Watcher
	panes.Client
	Why(ctx context.Context, ref string) (*api.Why, error)
	Tree(ctx context.Context, s, dead string) (*api.Tree, error)
	Leaks(ctx context.Context) (*api.Leaks, error)
}
