//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer"
)

// ended samples the time from the call of end for n processes to the end of file on the pipe that all of them hold.
func ended(ctx context.Context, r *report, name string, n, cgroup int, made func(*worker) error,
	end func() error) (took time.Duration, err error) {
	w, err := start(ctx, cgroup, "crowd")
	if err != nil {
		return 0, err
	}
	defer w.stop()
	if err := errors.Join(made(w), w.grow(n-1)); err != nil {
		return 0, err
	}
	gone, began := make(chan error, 1), time.Now()
	go func() {
		err := w.gone()
		took = time.Since(began)
		gone <- err
	}()
	if err := errors.Join(end(), <-gone); err != nil {
		return 0, err
	}
	r.took(name, took)
	return took, nil
}

// inCgroup is ended by the file that kills all in a cgroup.
func inCgroup(ctx context.Context, r *report, name string, n int) (took time.Duration, failed error) {
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
	return ended(ctx, r, name, n, fd, func(*worker) error { return nil }, func() error {
		return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	})
}

// kill ends equal groups in turn, by end and by cgroup.kill. The time has the BPF statistics in it.
func kill(ctx context.Context, r *report, k *kernel) error {
	for _, n := range []int{1, 10, 100, 1000} {
		rounds := 30
		if n == 1000 {
			rounds = 10
		}
		for range rounds {
			name := fmt.Sprintf("Kill/members=%d/by=", n)
			var id tracer.SessionID
			made := func(w *worker) (err error) { id, err = k.session(w); return err }
			end, err := ended(ctx, r, name+"end", n, -1, made,
				func() error { return k.End(id, tracer.CauseEnd, 0) })
			if err == nil {
				err = k.release(id)
			}
			if err != nil {
				return fmt.Errorf("end of %d: %w", n, err)
			}
			cgroup, err := inCgroup(ctx, r, name+"cgroup.kill", n)
			if err != nil {
				return fmt.Errorf("cgroup.kill of %d: %w", n, err)
			}
			r.sample(name+"end_:_cgroup.kill", 1, end.Seconds()/cgroup.Seconds(), "ratio")
		}
	}
	return nil
}

// pass asks the kernel to look for what is to be ended, among waiting processes of which none is.
func pass(ctx context.Context, r *report, k *kernel) error {
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
