//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// storm makes a session fork 5,000 times a second and measures the CPU time of the
// daemon, which reads all of it.
func storm(ctx context.Context, r *report) (err error) {
	const rate, seconds, rounds = 5000, 8, 3
	d, err := startDaemon(ctx, lineageBin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	time.Sleep(time.Second) // after the self-check it frees memory
	if err := d.memory(r, 0); err != nil {
		return err
	}
	for range rounds {
		if err := stormOnce(ctx, r, d, rate, seconds); err != nil {
			return err
		}
	}
	status, err := d.Status(ctx)
	if err != nil {
		return err
	}
	r.sample("Storm/forks=5000", rounds, float64(status.Lost), "events-lost")
	return nil
}

func stormOnce(ctx context.Context, r *report, d *daemon, rate, seconds int) error {
	// It prints "ready" and begins: the rest of its first second is not measured.
	w, err := start(ctx, -1, "vforkstorm", fmt.Sprint(rate), fmt.Sprint(seconds+2), "1")
	if err != nil {
		return err
	}
	defer w.stop()
	s, err := d.adopt(ctx, w)
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	before, err := d.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if s, err = d.Session(ctx, s.ID); err != nil {
		return err
	}
	forks := s.Forks
	time.Sleep(time.Duration(seconds) * time.Second)
	after, err := d.cpu()
	if err != nil {
		return err
	}
	took := time.Since(began)
	if s, err = d.Session(ctx, s.ID); err != nil {
		return err
	}
	r.sample("Storm/forks=5000", uint64(s.Forks-forks), (after-before).Seconds()*1000/took.Seconds(), "ms-cpu/s")
	r.sample("Storm/forks=5000", uint64(s.Forks-forks), float64(s.Forks-forks)/took.Seconds(), "forks/s")
	return d.end(ctx, s.ID)
}
