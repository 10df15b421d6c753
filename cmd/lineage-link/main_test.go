//go:build linux

package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/presence"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestMain is also the link that tests start: as the program, except that it comes back sooner.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lngtest-link" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		bus.Longest, presence.TTL = 300*time.Millisecond, 3*time.Second
		os.Exit(run())
	}
	stage.OnlyFrom("test-link")
	if err := stage.Prepare("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "test-link:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
