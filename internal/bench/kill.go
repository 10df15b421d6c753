//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer"
)

// A crowded is what is ended at once: groups of members, and with a storm one that forks.
type crowded struct {
	groups, members int
	storm           bool
}

// ended starts the groups, in a cgroup or without, and samples the time from the end's call to the end of
// file on the pipes that all of a group hold.
func (c crowded) ended(ctx context.Context, r *report, name string, cgroup int, made, end func(*worker) error) (took time.Duration, err error) {
	var all []*worker
	defer func() {
		for _, w := range all {
			w.stop()
		}
	}()
	for range c.groups {
		w, err := start(ctx, cgroup, "crowd")
		if err != nil {
			return 0, err
		}
		all = append(all, w)
		if err := errors.Join(made(w), w.grow(c.members-1)); err != nil {
			return 0, err
		}
	}
	if c.storm {
		w, err := start(ctx, cgroup, "vforkstorm", "20000", "60")
		if err != nil {
			return 0, err
		}
		all = append(all, w)
		if err := made(w); err != nil {
			return 0, err
		}
		before, began := forks(), time.Now()
		time.Sleep(300 * time.Millisecond) // of the storm
		r.sample(name, 1, float64(forks()-before)/time.Since(began).Seconds(), "forks/s")
	}
	gone, began := make(chan error, 1), time.Now()
	go func() {
		var errs []error
		for _, w := range all {
			errs = append(errs, w.gone())
		}
		took = time.Since(began)
		gone <- errors.Join(errs...)
	}()
	if err := errors.Join(end(all[0]), <-gone); err != nil {
		return 0, err
	}
	r.took(name, took)
	return took, nil
}

// forks are those of the host since it booted, threads included.
func forks() (n uint64) {
	text, _ := os.ReadFile("/proc/stat")
	_, rest, _ := strings.Cut(string(text), "\nprocesses ")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// inCgroup is ended by the file that kills all in a cgroup.
func (c crowded) inCgroup(ctx context.Context, r *report, name string) (took time.Duration, failed error) {
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup"
	}
	dir := filepath.Join(root, fmt.Sprintf("lngtest-bench-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	defer func() {
		failed = errors.Join(failed, until(context.Background(), "empty cgroup", func() error { return os.Remove(dir) }))
	}()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return c.ended(ctx, r, name, fd, func(*worker) error { return nil }, func(*worker) error {
		return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	})
}

// kill ends equal groups in turn, by end and by cgroup.kill. The time has the BPF statistics in it.
func kill(ctx context.Context, r *report) (failed error) {
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, k.close()) }()
	for _, n := range []int{1, 10, 100, 1000} {
		rounds, c := 30, crowded{groups: 1, members: n}
		if n == 1000 {
			rounds = 10
		}
		for range rounds {
			name := fmt.Sprintf("Kill/members=%d/by=", n)
			var id tracer.SessionID
			made := func(w *worker) (err error) { id, err = k.session(w); return err }
			end, err := c.ended(ctx, r, name+"end", -1, made, func(*worker) error { return k.End(id, tracer.CauseEnd, 0) })
			if err == nil {
				err = k.release(id)
			}
			if err != nil {
				return fmt.Errorf("end of %d: %w", n, err)
			}
			cgroup, err := c.inCgroup(ctx, r, name+"cgroup.kill")
			if err != nil {
				return fmt.Errorf("cgroup.kill of %d: %w", n, err)
			}
			r.sample(name+"end_:_cgroup.kill", 1, end.Seconds()/cgroup.Seconds(), "ratio")
		}
	}
	return nil
}

// pass asks the kernel to look for what is to be ended, among waiting processes of which none is.
func pass(ctx context.Context, r *report) (failed error) {
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, k.close()) }()
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	id, err := k.session(w)
	if err != nil {
		return err
	}
	have := 0
	for _, n := range []int{1000, 10000, 20000} {
		if err := w.grow(n - have); err != nil {
			return err
		}
		have = n
		for range 5 {
			began := time.Now()
			if _, err := k.Sentence(); err != nil {
				return err
			}
			r.took(fmt.Sprintf("Pass/processes=%d", n), time.Since(began))
		}
	}
	w.stop()
	return k.release(id)
}
