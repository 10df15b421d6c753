//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
)

// sweep ends a session of ten by its root's exit while many others live, and reads from
// the kernel's statistics how long the passes took that the exits carried out: up to
// 6.19 no task is switched on that CPU meanwhile. Then the many are the session.
func sweep(ctx context.Context, r *report) (err error) {
	const rounds = 10
	k, err := newMetered()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	strangers, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer strangers.stop()
	have := 0
	for _, n := range []int{0, 1000, 5000, 20000} {
		if err := fill(strangers, n-have); err != nil {
			return err
		}
		have = n
		for range rounds {
			if err := sweepOnce(ctx, r, k, 10, fmt.Sprintf("Sweep/strangers=%d/members=10", n)); err != nil {
				return err
			}
		}
	}
	strangers.stop()
	for _, n := range []int{1000, 5000, 20000} {
		for range min(rounds, 60000/n) {
			if err := sweepOnce(ctx, r, k, n, fmt.Sprintf("Sweep/strangers=0/members=%d", n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func sweepOnce(ctx context.Context, r *report, k *metered, n int, name string) error {
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	id, err := k.session(w, tracer.SessionSpec{})
	if err != nil {
		return err
	}
	if err := fill(w, n); err != nil {
		return err
	}
	did, err := k.m.during(func() error {
		if err := w.in.Close(); err != nil {
			return err
		}
		return w.gone()
	})
	if err != nil {
		return err
	}
	w.reap()
	s := did["exit_sentence"]
	r.sample(name, s.RunCount, float64(s.Runtime.Nanoseconds()), "ns/end")
	return k.release(id)
}
