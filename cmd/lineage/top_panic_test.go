//go:build linux && !race

package main

import (
	"context"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// The terminal is restored after a panic too. After a panic, bubbletea closes its
// reader's file without waiting for the reader, which the race detector reports.
func TestTopPanics(t *testing.T) {
	sitting{
		watch: func(context.Context, func(*api.Frame) error) error { panic("lngtest") },
		code:  1, says: "lineage: draw on the terminal: ",
	}.run(t)
}
