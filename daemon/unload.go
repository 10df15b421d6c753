//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Unload takes the instance of a socket down: it stops its daemon and removes
// everything that is pinned. With live sessions it refuses, unless force is set; then
// their processes continue, outside of any session.
func Unload(ctx context.Context, socket string, force bool) error {
	i, err := system.InstanceOf(socket)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return tracer.ErrNotRoot
	}
	return ThisHost().takeDown(ctx, i, force)
}

func (h Host) takeDown(ctx context.Context, i system.Instance, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, system.StartTimeout)
	defer cancel()
	c, err := api.Dial(ctx, i.Socket)
	switch {
	case err == nil:
		defer c.Close()
		if err := c.Stop(ctx, true, force); err != nil {
			return fmt.Errorf("unload: %w", err)
		}
		c.Close()
		if err := i.Gone(ctx); err != nil {
			return fmt.Errorf("unload: wait for the daemon: %w", err)
		}
	case !system.DaemonAbsent(err):
		return fmt.Errorf("unload: %w", err)
	}
	if _, err := os.Stat(i.Pins); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := i.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("unload: %w", err)
	}
	defer lock.Release()
	if !force {
		if err := h.noLive(i); err != nil {
			return err
		}
	}
	if err := h.Unload(i.Pins); err != nil {
		return fmt.Errorf("unload: %w", err)
	}
	return nil
}

// noLive refuses while the pins hold live sessions, of any version.
func (h Host) noLive(i system.Instance) error {
	live, err := h.Live(i.Pins, registry.HiddenName)
	if err != nil {
		return fmt.Errorf("unload: %w; use --force to unload anyway", err)
	}
	if live > 0 {
		return api.NewError(api.CodeLiveSessions, fmt.Sprintf("unload: live sessions: %d", live),
			"end them, or use --force")
	}
	return nil
}
