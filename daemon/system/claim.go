//go:build linux

package system

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
)

// ClaimOptions of [Instance.Claim].
type ClaimOptions struct {
	Ephemeral bool
	Started   bool // by a command, which holds the lock
	Passed    bool // a service manager listens on the socket already
}

// Claim takes the instance for this process: the lock, unless the command that
// started it holds that, and the PID file. No other daemon is then on the socket
// or the pins.
func (i Instance) Claim(ctx context.Context, o ClaimOptions) (lock *InstanceLock, alone *PIDFile, err error) {
	if !o.Started {
		// The holder may be starting a daemon, which is taken over below.
		waiting, cancel := context.WithTimeout(ctx, StartTimeout+LockTimeout)
		lock, err = i.Acquire(waiting)
		cancel()
		if err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, LockTimeout)
	defer cancel()
	// The PID file comes first: a daemon that is stopped or behind does not answer
	// on its socket, which is its own all the same.
	if alone, err = i.HoldPIDFile(ctx, o.Ephemeral); err != nil {
		lock.Release()
		return nil, nil, err
	}
	if !o.Passed {
		if !o.Started {
			err = i.takeOver(ctx)
		}
		if err == nil {
			err = i.removeStale(ctx)
		}
	}
	if err != nil {
		alone.Release()
		lock.Release()
		return nil, nil, err
	}
	return lock, alone, nil
}

// takeOver stops an ephemeral daemon whose PID file is lost; its sessions continue
// in the kernel.
func (i Instance) takeOver(ctx context.Context) error {
	c, err := api.Dial(ctx, i.Socket)
	switch {
	case DaemonAbsent(err):
		return nil
	case err != nil:
		return fmt.Errorf("claim socket %s: %w", i.Socket, err)
	}
	defer c.Close()
	v, err := c.Version(ctx)
	if err != nil {
		return fmt.Errorf("claim socket %s: %w", i.Socket, err)
	}
	if !v.Ephemeral {
		return fmt.Errorf("serve %s: %w as pid %d", i.Socket, ErrRunning, v.PID)
	}
	if err := c.Stop(ctx, false, false); err != nil {
		return fmt.Errorf("take over from pid %d: %w", v.PID, err)
	}
	c.Close()
	if err := i.Gone(ctx); err != nil {
		return fmt.Errorf("take over from pid %d: %w", v.PID, err)
	}
	return nil
}
