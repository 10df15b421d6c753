//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cost runs builds as they are, as sessions, and beside bpftrace's execsnoop. go build begins without a cache; npm ci has
// all packages in its own.
func cost(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "lngtest-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	npm := []string{"npm", "--prefix", dir, "--cache", filepath.Join(dir, "npm"), "--no-audit", "--no-fund"}
	if out, err := exec.CommandContext(ctx, "npm", append(npm[1:], "install", "eslint@9")...).CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %s", err, out)
	}
	// It is mounted in this mount namespace, for execsnoop; that fails if it is there.
	_ = unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")
	cache := filepath.Join(dir, "go")
	for range 3 {
		for _, by := range []string{"nothing", "lineage", "execsnoop"} {
			build := []string{"env", "CGO_ENABLED=0", "GOCACHE=" + cache, "go", "build", "-o", cache + "/lineage", "./cmd/lineage"}
			if err := beside(ctx, r, "go_build", by, build); err != nil {
				return err
			}
			if err := beside(ctx, r, "npm_ci", by, append(npm, "ci", "--prefer-offline")); err != nil {
				return err
			}
			if err := os.RemoveAll(cache); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside samples a command's wall time, its system time, and how many events about it were lost.
func beside(ctx context.Context, r *report, build, by string, argv []string) (failed error) {
	lost := func() (float64, error) { return 0, nil }
	switch by {
	case "lineage":
		d, err := newDaemon(lineageBin)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, d.close()) }()
		if err := d.run(ctx); err != nil {
			return err
		}
		argv = append([]string{lineageBin, "run", "--quiet", "--socket", d.socket, "--"}, argv...)
		lost = func() (float64, error) {
			st, err := d.Status(ctx)
			if err != nil {
				return 0, err
			}
			return float64(st.Lost), nil
		}
	case "execsnoop":
		var err error
		if lost, err = execsnoop(ctx); err != nil {
			return err
		}
	}
	cmd, began := exec.CommandContext(ctx, argv[0], argv[1:]...), time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	n, unknown := lost()
	if err := errors.Join(err, unknown); err != nil {
		return fmt.Errorf("%s, %s: %w: %s", build, by, err, out)
	}
	name := fmt.Sprintf("Cost/command=%s,_%s/what=", build, by)
	r.took(name+"wall", took)
	r.took(name+"system", cmd.ProcessState.SystemTime())
	r.sample(name+"lost", 1, n, "ratio")
	return nil
}

// execsnoop starts bpftrace's, of tracepoints; what it returns ends it, and says how many events it lost.
func execsnoop(ctx context.Context) (lost func() (float64, error), err error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "execsnoop.bt")
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	text := bufio.NewScanner(out)
	for text.Scan() && !strings.HasPrefix(text.Text(), "TIME") { // it is attached
	}
	done := make(chan float64, 1)
	go func() {
		sum := 0.0
		for text.Scan() {
			if m := lostEvents.FindStringSubmatch(text.Text()); m != nil {
				n, _ := strconv.ParseFloat(m[1], 64) // digits
				sum += n
			}
		}
		done <- sum
	}()
	return func() (float64, error) {
		_ = cmd.Process.Signal(unix.SIGINT)
		sum := <-done
		if err := cmd.Wait(); err != nil {
			return 0, fmt.Errorf("execsnoop: %w: %s", err, errs.String())
		}
		return sum, nil
	}, nil
}

var lostEvents = regexp.MustCompile(`^Lost (\d+) events`)
