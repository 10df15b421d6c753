//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func export(args []string) int {
	store, err := follow.OpenStore(args[5])
	var b *bus.Bus
	if err == nil {
		b, err = bus.Connect(&service.LinkOptions{Servers: args[1:2], CA: args[2], Nkey: args[3], Name: args[4]}, version, zerolog.New(os.Stderr))
	}
	if err == nil {
		r := &follow.Receipts{
			Stream: b,
			Store:  store,
			Host:   args[4],
			Log:    zerolog.New(os.Stderr),
			Dial:   func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, args[0]) },
		}
		if err = r.Open(); err == nil {
			r.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestMain is also the link that tests start: as the program, except that it comes back sooner.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lngtest-link" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		bus.Longest, bus.PresenceTTL = 300*time.Millisecond, 3*time.Second
		os.Exit(run())
	}
	if len(os.Args) > 1 && os.Args[1] == "lngtest-export" {
		bus.Longest = 300 * time.Millisecond
		os.Exit(export(os.Args[2:]))
	}
	stage.OnlyFrom("test-link")
	if err := stage.Prepare("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "test-link:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
