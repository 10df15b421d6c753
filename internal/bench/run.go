//go:build linux

package main

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// runCost runs true alone and under lineage run, in turn, with a daemon running.
func runCost(ctx context.Context, r *report) (err error) {
	const rounds = 101
	d, err := startDaemon(ctx, lineageBin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for range rounds {
		for _, c := range []struct {
			name string
			args []string
		}{
			{"true", []string{"/bin/true"}},
			{"run", []string{lineageBin, "--socket", d.socket, "run", "--", "/bin/true"}},
			{"version", []string{lineageBin, "--socket", d.socket, "version"}},
		} {
			began := time.Now()
			if err := exec.CommandContext(ctx, c.args[0], c.args[1:]...).Run(); err != nil {
				return err
			}
			r.took("Run/command="+c.name, time.Since(began))
		}
	}
	return nil
}
