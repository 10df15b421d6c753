package tui

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Client is what the view needs of an api.Client.
type Client interface {
	Watch(ctx context.Context, q api.WatchQuery, each func(*api.Frame) error) error
	Why(ctx context.Context, ref string) (*api.Why, error)
	Plan(ctx context.Context, s string) (*api.Plan, error)
	End(ctx context.Context, s string, req api.EndRequest) (*api.Report, error)
	Report(ctx context.Context, s string, wait time.Duration) (*api.Report, error)
	Kill(ctx context.Context, ref string, req api.KillRequest) (*api.Killed, error)
}
