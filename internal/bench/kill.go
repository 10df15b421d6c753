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

// kill ends equal groups in turn, by end and by cgroup.kill. The time, BPF statistics
// included, is from the call to the end of file on a pipe that all of them hold.
func kill(ctx context.Context, r *report) (err error) {
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	root, err := unified()
	if err != nil {
		return err
	}
	for _, n := range []int{1, 10, 100, 1000} {
		rounds := 30
		if n == 1000 {
			rounds = 10
		}
		for range rounds {
			took, err := killByEnd(ctx, k, n)
			if err != nil {
				return fmt.Errorf("end of %d: %w", n, err)
			}
			r.took(fmt.Sprintf("Kill/members=%d/by=end", n), took)
			if took, err = killByCgroup(ctx, root, n); err != nil {
				return fmt.Errorf("cgroup.kill of %d: %w", n, err)
			}
			r.took(fmt.Sprintf("Kill/members=%d/by=cgroup.kill", n), took)
		}
	}
	return nil
}

func killByEnd(ctx context.Context, k *kernel, n int) (time.Duration, error) {
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return 0, err
	}
	defer w.stop()
	id, err := k.session(w)
	if err != nil {
		return 0, err
	}
	took, err := w.killed(n, func() error { return k.End(id, tracer.CauseEnd, 0) })
	if err != nil {
		return 0, err
	}
	return took, k.release(id)
}

func killByCgroup(ctx context.Context, root string, n int) (time.Duration, error) {
	return inCgroup(root, func(fd int, kill func() error) (time.Duration, error) {
		w, err := start(ctx, fd, "crowd")
		if err != nil {
			return 0, err
		}
		defer w.stop()
		return w.killed(n, kill)
	})
}

// inCgroup measures what is done with a new cgroup, and with the file that kills all in it.
func inCgroup(root string, do func(fd int, kill func() error) (time.Duration, error)) (took time.Duration, err error) {
	dir := filepath.Join(root, fmt.Sprintf("lngtest-bench-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removed(dir)) }()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return do(fd, func() error { return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) })
}

// killed makes a crowd of n processes and returns how long its end takes.
func (w *worker) killed(n int, end func() error) (time.Duration, error) {
	if err := w.grow(n - 1); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := errors.Join(end(), w.gone()); err != nil {
		return 0, err
	}
	took := time.Since(began)
	w.reap()
	return took, nil
}

// removed waits until the cgroup is empty and removes it.
func removed(dir string) (err error) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = os.Remove(dir); err == nil {
			return nil
		}
	}
	return err
}

// unified is where cgroup v2 is mounted.
func unified() (string, error) {
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(dir + "/cgroup.controllers"); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no cgroup v2 hierarchy")
}
