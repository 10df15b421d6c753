//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

const (
	haltRounds   = 5
	haltSessions = 100
	haltMembers  = 10
	haltForks    = "20000" // a second, in one more session
)

// What a halt is compared with, and how.
var haltCases = []struct {
	name, says string
	killed     bool // the daemon, when the first member is dead; the unit starts the next
	run        func(h *haltCase, ctx context.Context) (time.Duration, error)
}{
	{"halt", "`lineage halt`", false, (*haltCase).halt},
	{"killed", "`lineage halt`, its daemon SIGKILLed", true, (*haltCase).halt},
	{"cgroup", "`cgroup.kill` of one cgroup", false, (*haltCase).cgroup},
}

// A haltCase is one measurement.
type haltCase struct {
	flags  []string // of the daemon
	killed bool
	pause  time.Duration // before the next daemon starts
	forks  float64       // a second, of the whole host, before the end
}

// halt ends many sessions at once while one of them forks without pause. The time is from the
// request to the end of file on the pipes that all members hold, also those born meanwhile.
func halt(ctx context.Context, r *report) error {
	pause, err := restartSec("packaging/systemd/lineage.service.in")
	if err != nil {
		return err
	}
	for level := 4; level >= 2; level-- {
		for range haltRounds {
			for _, c := range haltCases {
				h := &haltCase{flags: []string{"--level", strconv.Itoa(level)}, killed: c.killed, pause: pause}
				took, err := c.run(h, ctx)
				if err != nil {
					return fmt.Errorf("level %d, %s: %w", level, c.name, err)
				}
				name := fmt.Sprintf("Halt/level=%d/by=%s", level, c.name)
				r.took(name, took)
				r.sample(name, 1, h.forks, "forks/s")
			}
		}
	}
	return nil
}

// halt is of sessions.
func (h *haltCase) halt(ctx context.Context) (took time.Duration, err error) {
	d, err := startDaemon(ctx, lineageBin, h.flags...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return h.end(ctx, -1, func(w *worker) error {
		grace := int64(0)
		_, err := d.Create(ctx, api.NewSession{Root: api.Ref{PID: w.pid()}, GraceMS: &grace})
		return err
	}, func(first *worker) error {
		if !h.killed {
			_, err := d.Halt(ctx, api.HaltRequest{Mode: api.ModeHalt, Reason: "bench"})
			return err
		}
		go d.Halt(ctx, api.HaltRequest{Mode: api.ModeHalt, Reason: "bench"}) //nolint:errcheck // its daemon dies
		fd, err := unix.PidfdOpen(first.pid(), unix.PIDFD_NONBLOCK)
		if err != nil {
			return err
		}
		m := members{all: []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}}
		defer m.close()
		if err := errors.Join(m.gone(deadLimit), d.kill()); err != nil {
			return err
		}
		time.Sleep(h.pause)
		return d.run(ctx, lineageBin, h.flags...)
	})
}

// cgroup is of the same processes, in one cgroup.
func (h *haltCase) cgroup(ctx context.Context) (time.Duration, error) {
	root, err := unified()
	if err != nil {
		return 0, err
	}
	return inCgroup(root, func(fd int, kill func() error) (time.Duration, error) {
		return h.end(ctx, fd, func(*worker) error { return nil }, func(*worker) error { return kill() })
	})
}

// end makes the crowds and the storm, and returns how long their end takes.
func (h *haltCase) end(ctx context.Context, cgroup int, made func(*worker) error, end func(first *worker) error) (took time.Duration, err error) {
	if err := roomFor(haltSessions * haltMembers); err != nil {
		return 0, err
	}
	var all []*worker
	defer func() {
		for _, w := range all {
			w.stop()
		}
	}()
	for range haltSessions {
		w, err := start(ctx, cgroup, "crowd")
		if err != nil {
			return 0, err
		}
		all = append(all, w)
		if err := errors.Join(made(w), w.grow(haltMembers-1)); err != nil {
			return 0, err
		}
	}
	storm, err := start(ctx, cgroup, "vforkstorm", haltForks, "60")
	if err != nil {
		return 0, err
	}
	all = append(all, storm)
	if err := made(storm); err != nil {
		return 0, err
	}
	before, began := forks(), time.Now()
	time.Sleep(300 * time.Millisecond) // of the storm
	h.forks = float64(forks()-before) / time.Since(began).Seconds()
	began = time.Now()
	ended := make(chan error, 1)
	go func() { ended <- end(all[0]) }()
	for _, w := range all {
		if err := w.gone(); err != nil {
			return 0, err
		}
	}
	took = time.Since(began)
	return took, <-ended
}

// forks are those of the host since it booted, threads included.
func forks() (n uint64) {
	text, _ := os.ReadFile("/proc/stat")
	_, rest, _ := strings.Cut(string(text), "\nprocesses ")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

func (s *samples) haltTable() string {
	rows := make([][2]string, len(haltCases))
	for i, c := range haltCases {
		rows[i] = [2]string{"by=" + c.name, c.says}
	}
	return s.levelTable("Halt", fmt.Sprintf("end of %d sessions of %d", haltSessions, haltMembers), rows)
}
