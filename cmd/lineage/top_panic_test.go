//go:build linux && !race

package main

import (
	"context"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// The terminal is as it was after a panic too. Behind one, bubbletea closes what
// its reader reads and does not wait for it, which the race detector reports.
func TestTopPanics(t *testing.T) {
	sitting{
		watch: func(context.Context, func(*api.Frame) error) error { panic("lngtest") },
		code:  1, says: "lineage: draw on the terminal: ",
	}.run(t)
}
