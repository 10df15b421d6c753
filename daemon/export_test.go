//go:build linux

package daemon

import (
	"context"

	"github.com/lineage-ebpf/lineage/daemon/system"
)

// What the tests of the package as a whole call.

func (h Host) TakeDown(ctx context.Context, i system.Instance, force bool) error {
	return h.takeDown(ctx, i, force)
}

// Favoured is another process of TestFavour.
func Favoured() int { return favoured() }
