//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// cost runs builds as they are, as sessions, and beside bpftrace's execsnoop: go build without a cache, npm ci with one.
func cost(ctx context.Context, r *report, _ *kernel) error {
	dir, err := os.MkdirTemp("", "lngtest-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cache := filepath.Join(dir, "go")
	build := []string{"env", "CGO_ENABLED=0", "GOCACHE=" + cache,
		"go", "build", "-o", cache + "/lineage", "./cmd/lineage"}
	npm := []string{"npm", "--prefix", dir, "--cache", filepath.Join(dir, "npm"), "--no-audit", "--no-fund",
		"install", "eslint@9"}
	if out, err := exec.CommandContext(ctx, npm[0], npm[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %s", err, out)
	}
	npm = append(npm[:len(npm)-2], "ci", "--prefer-offline")
	// execsnoop needs it in this mount namespace; it may be there.
	_ = unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")
	for range 3 {
		for _, by := range []string{"nothing", "lineage", "execsnoop"} {
			if err := errors.Join(beside(ctx, r, "go_build", by, dir, build),
				beside(ctx, r, "npm_ci", by, dir, npm),
				os.RemoveAll(cache)); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside samples a command's wall time, its system time, and how many events were lost.
func beside(ctx context.Context, r *report, command, by, dir string, argv []string) (failed error) {
	lost := func() (float64, error) { return 0, nil }
	switch by {
	case "lineage":
		d, err := startDaemon(ctx, lineageBin)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, d.close()) }()
		argv = append([]string{lineageBin, "run", "--quiet", "--socket", d.socket, "--"}, argv...)
		lost = func() (float64, error) {
			st, err := d.Status(ctx)
			if err != nil {
				return 0, err
			}
			return float64(st.Lost), nil
		}
	case "execsnoop":
		output := filepath.Join(dir, command)
		defer os.Remove(output)
		snoop := exec.CommandContext(ctx, "sh", "-c",
			`exec bpftrace -B line -o "$0" "$(command -v execsnoop.bt)"`, output)
		if err := snoop.Start(); err != nil {
			return err
		}
		if err := until(ctx, "execsnoop", func() error {
			if text, _ := os.ReadFile(output); !bytes.Contains(text, []byte("TIME")) {
				return errors.New("not attached")
			}
			return nil
		}); err != nil {
			return err
		}
		lost = func() (sum float64, err error) {
			err = errors.Join(snoop.Process.Signal(unix.SIGINT), snoop.Wait())
			text, failed := os.ReadFile(output)
			for line := range bytes.Lines(text) {
				var n float64
				_, _ = fmt.Sscanf(string(line), "Lost %f events", &n) // other lines leave it 0
				sum += n
			}
			return sum, errors.Join(err, failed)
		}
	}
	cmd, began := exec.CommandContext(ctx, argv[0], argv[1:]...), time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	n, unknown := lost()
	if err = errors.Join(err, unknown); err != nil {
		return fmt.Errorf("%s, %s: %w: %s", command, by, err, out)
	}
	name := fmt.Sprintf("Cost/command=%s,_%s/what=", command, by)
	r.took(name+"wall", took)
	r.took(name+"system", cmd.ProcessState.SystemTime())
	r.sample(name+"lost", 1, n, "ratio")
	return nil
}
