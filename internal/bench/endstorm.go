//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// endStorm ends equal storms in turn by the two commands that a user would type: 300
// processes, each the leader of a POSIX session of its own, fork without pause. The
// scheduler treats each like the command, which must get its turn among them. The time
// is from the command's start until no process is left.
func endStorm(ctx context.Context, r *report) (err error) {
	const rounds = 15
	root, err := unified()
	if err != nil {
		return err
	}
	d, err := startDaemon(ctx, lineageBin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for range rounds {
		took, err := endStormByCgroup(ctx, root)
		if err != nil {
			return fmt.Errorf("cgroup.kill: %w", err)
		}
		r.took("EndStorm/by=cgroup.kill", took)
		if took, err = endStormByLineage(ctx, d); err != nil {
			return fmt.Errorf("lineage end: %w", err)
		}
		r.took("EndStorm/by=end", took)
	}
	return nil
}

func endStormByCgroup(ctx context.Context, root string) (took time.Duration, err error) {
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
	w, err := startStorm(ctx, fd)
	if err != nil {
		return 0, err
	}
	defer w.stopStorm()
	return w.endedBy(ctx, "sh", "-c", "echo 1 > "+filepath.Join(dir, "cgroup.kill"))
}

func endStormByLineage(ctx context.Context, d *daemon) (time.Duration, error) {
	w, err := startStorm(ctx, -1)
	if err != nil {
		return 0, err
	}
	defer w.stopStorm()
	s, err := d.adopt(ctx, w)
	if err != nil {
		return 0, err
	}
	return w.endedBy(ctx, lineageBin, "end", "--socket", d.socket, "--now", "--yes", s.ID)
}

// startStorm starts the first process of a storm, which does nothing yet.
func startStorm(ctx context.Context, cgroup int) (*worker, error) {
	return start(ctx, cgroup, "crowd", "30")
}

// endedBy lets a storm run for a while and ends it by a command.
func (w *worker) endedBy(ctx context.Context, command string, args ...string) (time.Duration, error) {
	const leaders = 300
	if err := w.grow(leaders); err != nil {
		return 0, err
	}
	time.Sleep(500 * time.Millisecond)
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	err := w.gone()
	took := time.Since(began)
	return took, errors.Join(err, cmd.Wait())
}

// stopStorm reaps the dead of a storm, which led groups of their own. If some are
// alive, they exit on their own.
func (w *worker) stopStorm() {
	w.stop()
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return // only the daemon is left, alive
		}
	}
}
