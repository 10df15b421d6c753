//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer"
)

// A killer ends all members of a worker's group in some way. prepare runs before there
// are any, and returns what is timed, and what cleans up after it.
type killer struct {
	name    string
	cgroup  bool
	prepare func(k *kernel, w *worker, dir string) (end func() error, after func() error, err error)
}

var killers = []killer{
	{"end", false, byEnd},
	{"cgroup.kill", true, byCgroup},
	{"killpg", false, byGroup},
	{"walk", false, byWalk},
}

func nothing() error { return nil }

func byEnd(k *kernel, w *worker, _ string) (func() error, func() error, error) {
	id, err := k.session(w, tracer.SessionSpec{})
	return func() error { return k.End(id, tracer.CauseEnd, 0) }, func() error { return k.release(id) }, err
}

func byCgroup(_ *kernel, _ *worker, dir string) (func() error, func() error, error) {
	return func() error { return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) }, nothing, nil
}

func byGroup(_ *kernel, w *worker, _ string) (func() error, func() error, error) {
	return func() error { return unix.Kill(-w.pid(), unix.SIGKILL) }, nothing, nil
}

// byWalk does what psutil's children(recursive=True) and kill do, until a walk finds no
// process.
func byWalk(_ *kernel, w *worker, _ string) (func() error, func() error, error) {
	return func() error {
		for {
			family, err := descendants(w.pid())
			if err != nil {
				return err
			}
			for _, pid := range family {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
			}
			if len(family) == 0 {
				return nil
			}
		}
	}, nothing, nil
}

// descendants are root, unless it is a zombie, and its descendants by their parents.
func descendants(root int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[0] == "Z" {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		if pid == root {
			parent = 0
		}
		children[parent] = append(children[parent], pid)
	}
	family := []int{}
	for _, pid := range children[0] {
		if pid == root {
			family = append(family, root)
		}
	}
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i]]...)
	}
	return family, nil
}

// kill ends equal groups in turn by each of the ways. The time is from the call to the
// end of file on a pipe that all of them hold.
func kill(ctx context.Context, r *report) (err error) {
	k, err := trace(nil)
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
			for i := range killers {
				took, err := killOnce(ctx, k, &killers[i], root, n)
				if err != nil {
					return fmt.Errorf("%s of %d: %w", killers[i].name, n, err)
				}
				r.took(fmt.Sprintf("Kill/members=%d/by=%s", n, killers[i].name), took)
			}
		}
	}
	return nil
}

func killOnce(ctx context.Context, k *kernel, by *killer, root string, n int) (took time.Duration, err error) {
	dir, fd := "", -1
	if by.cgroup {
		dir = filepath.Join(root, fmt.Sprintf("lngtest-bench-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, removed(dir)) }()
		if fd, err = unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return 0, err
		}
		defer unix.Close(fd)
	}
	w, err := start(ctx, fd, "crowd")
	if err != nil {
		return 0, err
	}
	defer w.stop()
	end, after, err := by.prepare(k, w, dir)
	if err != nil {
		return 0, err
	}
	if err := w.grow(n - 1); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := end(); err != nil {
		return 0, err
	}
	if err := w.gone(); err != nil {
		return 0, err
	}
	took = time.Since(began)
	w.reap()
	return took, after()
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
	return "", fmt.Errorf("no cgroup v2 hierarchy")
}
