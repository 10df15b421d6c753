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

// builds compares two builds of lineage. Both run at once and trace the same processes.
// Each measurement of one is directly followed by one of the other, and they take turns
// in being first: other load on the host affects both.
type builds struct {
	ctx   context.Context
	paths [2]string // old, new
	both  [2]*daemon
	ratio map[string][]float64 // new / old, by what was measured
	order []string
}

func compareBuilds(ctx context.Context, older string) (err error) {
	b := &builds{ctx: ctx, paths: [2]string{older, lineageBin}, ratio: make(map[string][]float64)}
	for range 7 {
		if err := errors.Join(b.start(), b.idle(), b.stop()); err != nil {
			return err
		}
	}
	if err := b.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, n := range []int{1, 100, 1000} {
		for range 15 {
			if err := b.ends(n); err != nil {
				return fmt.Errorf("end of %d: %w", n, err)
			}
		}
	}
	for range 3 {
		if err := b.events(); err != nil {
			return fmt.Errorf("events: %w", err)
		}
	}
	if err := b.requests(20000); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	return b.print()
}

func (b *builds) start() error {
	for i := range b.both {
		d, err := startDaemon(b.ctx, b.paths[i])
		if err != nil {
			return errors.Join(err, b.stop())
		}
		b.both[i] = d
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
	b.ratio[what] = append(b.ratio[what], v[1]/v[0])
	return nil
}

func timed(do func(*daemon) error) func(*daemon) (float64, error) {
	return func(d *daemon) (float64, error) {
		began := time.Now()
		err := do(d)
		return time.Since(began).Seconds(), err
	}
}

// idle is the private memory without a session, after the memory that the start needed was freed.
func (b *builds) idle() error {
	if b.both[1] == nil {
		return nil // start has returned the error
	}
	time.Sleep(3 * time.Second)
	return b.pair("RssAnon, idle", func(d *daemon) (float64, error) { return d.kilobytes("RssAnon") })
}

// ends makes each end a session of n members.
func (b *builds) ends(n int) error {
	return b.pair(fmt.Sprintf("end of %d", n), func(d *daemon) (float64, error) {
		w, err := start(b.ctx, -1, "crowd")
		if err != nil {
			return 0, err
		}
		defer w.stop()
		s, err := d.adopt(b.ctx, w)
		if err != nil {
			return 0, err
		}
		if n > 1 {
			if err := errors.Join(fill(w, n-1), d.knows(b.ctx, s.ID, n-1)); err != nil {
				return 0, err
			}
		}
		return timed(func(d *daemon) error { return d.end(b.ctx, s.ID) })(d)
	})
}

// events compares the CPU time that each needs for the same 5,000 forks a second.
func (b *builds) events() error {
	w, err := start(b.ctx, -1, "vforkstorm", "5000", "12", "1")
	if err != nil {
		return err
	}
	defer w.stop()
	for _, d := range b.both {
		if _, err := d.adopt(b.ctx, w); err != nil {
			return err
		}
	}
	var used [2]time.Duration
	for window := range 10 {
		var now [2]time.Duration
		for i, d := range b.both {
			if now[i], err = d.cpu(); err != nil {
				return err
			}
		}
		if window > 0 {
			if err := b.pair("CPU time of 5,000 forks", func(d *daemon) (float64, error) {
				i := slices.Index(b.both[:], d)
				return (now[i] - used[i]).Seconds(), nil
			}); err != nil {
				return err
			}
		}
		used = now
		time.Sleep(time.Second)
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
	ids := make(map[*daemon]string)
	for _, d := range b.both {
		s, err := d.adopt(b.ctx, w)
		if err != nil {
			return err
		}
		ids[d] = s.ID
	}
	if err := fill(w, n); err != nil {
		return err
	}
	for _, d := range b.both {
		if err := d.knows(b.ctx, ids[d], n); err != nil {
			return err
		}
	}
	for range 25 {
		for i, what := range []string{"ls", "tree", "why"} {
			if err := b.pair(fmt.Sprintf("%s of %d", what, n), timed(func(d *daemon) error { return d.questions(b.ctx, ids[d], w.pid())[i].ask() })); err != nil {
				return err
			}
		}
	}
	return nil
}

// print shows the median of each ratio and, by order statistics, its 95 % interval.
func (b *builds) print() error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tPAIRS\tNEW/OLD\t95 % INTERVAL")
	for _, what := range b.order {
		v := slices.Sorted(slices.Values(b.ratio[what]))
		n := float64(len(v))
		low := max(0, int((n-1.96*math.Sqrt(n))/2))
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f to %.3f\n", what, len(v), quantile(v, 0.5), v[low], v[len(v)-1-low])
	}
	return t.Flush()
}
