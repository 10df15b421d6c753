//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
)

// events and top run Go's own benchmarks, whose output lines are samples already.
func events(ctx context.Context, r *report) error {
	return goTest(ctx, r, "-bench", "Apply|Decode", "-benchtime", "200ms", "-count", "5", "./lineage", "./tracer")
}

func top(ctx context.Context, r *report) error {
	return goTest(ctx, r, "-bench", "Key|Frame|Filter|Snapshot", "-benchtime", "20x", "-count", "5", "./tui")
}

func goTest(ctx context.Context, r *report, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$", "-benchmem"}, args...)...)
	cmd.Stdout, cmd.Stderr = r.out, os.Stderr
	return cmd.Run()
}
