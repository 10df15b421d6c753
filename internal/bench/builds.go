//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// builds compares two builds of lineage, which run at once and take turns in being first: other load affects both.
type builds struct {
	ctx    context.Context
	paths  [2]string // old, new
	both   [2]*daemon
	order  []string
	ratio  map[string][]float64 // new / old, by what was measured
	latest map[string][]float64 // the new one's
}

func compareBuilds(ctx context.Context, older string) (failed error) {
	b := &builds{ctx: ctx, paths: [2]string{older, lineageBin},
		ratio: map[string][]float64{}, latest: map[string][]float64{}}
	for range 7 {
		if err := errors.Join(b.start(), b.idle(), b.stop()); err != nil {
			return err
		}
	}
	defer func() { failed = errors.Join(failed, b.stop()) }()
	if err := b.start(); err != nil {
		return err
	}
	for _, n := range []int{1, 100, 1000} {
		for range 15 {
			if err := b.ends(n); err != nil {
				return fmt.Errorf("end of %d: %w", n, err)
			}
		}
	}
	if err := b.events(); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	if err := b.requests(20000); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	return b.print()
}

func (b *builds) start() (err error) {
	for i := range b.both {
		if b.both[i], err = startDaemon(b.ctx, b.paths[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *builds) stop() error {
	var errs []error
	for i, d := range b.both {
		if d != nil {
			errs = append(errs, d.close())
		}
		b.both[i] = nil
	}
	return errors.Join(errs...)
}

// pair measures both, and notes the ratio of the new one's figure to the old one's.
func (b *builds) pair(what string, measure func(*daemon) (float64, error)) error {
	var v [2]float64
	first := len(b.ratio[what]) % 2
	for _, i := range []int{first, 1 - first} {
		var err error
		if v[i], err = measure(b.both[i]); err != nil {
			return fmt.Errorf("%s: %w", b.paths[i], err)
		}
	}
	if b.ratio[what] == nil {
		b.order = append(b.order, what)
	}
	b.ratio[what], b.latest[what] = append(b.ratio[what], v[1]/v[0]), append(b.latest[what], v[1])
	return nil
}

// timed is a measurement in ms.
func timed(do func(*daemon) error) func(*daemon) (float64, error) {
	return func(d *daemon) (float64, error) {
		began := time.Now()
		err := do(d)
		return time.Since(began).Seconds() * 1e3, err
	}
}

// idle is the private memory without a session, after the memory that the start needed was freed.
func (b *builds) idle() error {
	if b.both[1] == nil {
		return nil // start has returned the error
	}
	time.Sleep(3 * time.Second)
	return b.pair("RssAnon, idle, kB", func(d *daemon) (kb float64, err error) {
		_, err = fmt.Sscan(fieldOf(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid), "RssAnon"), &kb)
		return kb, err
	})
}

// ends makes each end a session of n members.
func (b *builds) ends(n int) error {
	return b.pair(fmt.Sprintf("end of %d, ms", n), func(d *daemon) (float64, error) {
		w, err := start(b.ctx, -1, "crowd")
		if err != nil {
			return 0, err
		}
		defer w.stop()
		id, err := b.filled(w, n-1, d)
		if err != nil {
			return 0, err
		}
		return timed(func(d *daemon) error { return d.end(b.ctx, id[d]) })(d)
	})
}

// filled makes the worker a session of each daemon, with n more processes that they know.
func (b *builds) filled(w *worker, n int, all ...*daemon) (ids map[*daemon]string, err error) {
	ids = map[*daemon]string{}
	for _, d := range all {
		s, err := d.adopt(b.ctx, w)
		if err != nil {
			return nil, err
		}
		ids[d] = s.ID
	}
	if err := w.grow(n); err != nil {
		return nil, err
	}
	for d, id := range ids {
		if err := d.knows(b.ctx, id, n); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// events compares the CPU time that each needs for 5,000 forks.
func (b *builds) events() error {
	w, err := start(b.ctx, -1, "vforkstorm", "5000", "60", "1")
	if err != nil {
		return err
	}
	defer w.stop()
	for _, d := range b.both {
		if _, err := d.adopt(b.ctx, w); err != nil {
			return err
		}
	}
	for range 27 {
		if err := b.pair("CPU time of 5,000 forks, ms", func(d *daemon) (float64, error) {
			before, err := d.cpu()
			time.Sleep(time.Second)
			after, failed := d.cpu()
			return (after - before).Seconds() * 1e3, errors.Join(err, failed)
		}); err != nil {
			return err
		}
	}
	return nil
}

// requests sends both the same requests about n processes.
func (b *builds) requests(n int) error {
	w, err := start(b.ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	ids, err := b.filled(w, n, b.both[:]...)
	if err != nil {
		return err
	}
	for range 25 {
		for what, ask := range map[string]func(*daemon) error{
			"ls":   func(d *daemon) error { _, err := d.Sessions(b.ctx, "", ""); return err },
			"tree": func(d *daemon) error { _, err := d.Tree(b.ctx, ids[d], ""); return err },
			"why":  func(d *daemon) error { _, err := d.Why(b.ctx, fmt.Sprint(w.pid())); return err },
		} {
			if err := b.pair(fmt.Sprintf("%s of %d, ms", what, n), timed(ask)); err != nil {
				return err
			}
		}
	}
	return nil
}

// print shows the median of each ratio and, by order statistics, its 95 % interval.
func (b *builds) print() error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tPAIRS\tNEW/OLD\t95 % INTERVAL\tNEW")
	for _, what := range b.order {
		v := slices.Sorted(slices.Values(b.ratio[what]))
		n := float64(len(v))
		low := max(0, int((n-1.96*math.Sqrt(n))/2))
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f to %.3f\t%s\n", what, len(v),
			quantile(v, 0.5), v[low], v[len(v)-1-low],
			plain(quantile(b.latest[what], 0.5)))
	}
	return t.Flush()
}
