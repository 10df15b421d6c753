//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

// halt ends many sessions at once while one of them forks without pause: by lineage halt, the same
// while the daemon is killed with the first member, and by cgroup.kill.
func halt(ctx context.Context, r *report) error {
	c := crowded{100, 10, true}
	for level := 4; level >= 2; level-- {
		for range 5 {
			for _, by := range []string{"lineage_halt", "lineage_halt,_its_daemon_killed", "cgroup.kill"} {
				name := fmt.Sprintf("Halt/by=%s/level=level_%d", by, level)
				var err error
				if by == "cgroup.kill" {
					_, err = c.inCgroup(ctx, r, name)
				} else {
					err = c.halted(ctx, r, name, level, by != "lineage_halt")
				}
				if err != nil {
					return fmt.Errorf("level %d, %s: %w", level, by, err)
				}
			}
		}
	}
	return nil
}

func (c crowded) halted(ctx context.Context, r *report, name string, level int, killed bool) (failed error) {
	d, err := newDaemon(lineageBin, "--level", strconv.Itoa(level))
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, d.close()) }()
	if err := d.run(ctx); err != nil {
		return err
	}
	made := func(w *worker) error {
		grace := int64(0)
		_, err := d.Create(ctx, api.NewSession{Root: api.Ref{PID: w.pid()}, GraceMS: &grace})
		return err
	}
	ask := func() error {
		_, err := d.Halt(ctx, api.HaltRequest{Mode: api.ModeHalt, Reason: "bench", All: true})
		return err
	}
	_, err = c.ended(ctx, r, name, -1, made, func(first *worker) error {
		if !killed {
			return ask()
		}
		fd, err := unix.PidfdOpen(first.pid(), unix.PIDFD_NONBLOCK)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		go ask() //nolint:errcheck // its daemon dies
		if err := errors.Join(exited(fd), d.kill()); err != nil {
			return err
		}
		time.Sleep(restartAfter)
		return d.run(ctx)
	})
	return err
}
