//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// exits makes the kernel end sessions inside their root's exit (level 4, grace 0), and
// takes the times from the exit events themselves.
func exits(ctx context.Context, r *report) (err error) {
	const rounds = 40
	events := make(chan tracer.Event, 1<<14)
	k, err := trace(func(ev *tracer.Event) {
		if ev.Type == tracer.EventExit || ev.Type == tracer.EventSession {
			events <- *ev
		}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if f := k.Features(); f.Level < 4 {
		return fmt.Errorf("level %d: %v", f.Level, f.Missing)
	}
	for _, n := range []int{1, 10, 100, 1000} {
		for range rounds {
			took, err := exitOnce(ctx, k, events, n)
			if err != nil {
				return err
			}
			r.took(fmt.Sprintf("RootExit/members=%d", n), took)
		}
	}
	return nil
}

func exitOnce(ctx context.Context, k *kernel, events <-chan tracer.Event, n int) (time.Duration, error) {
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return 0, err
	}
	defer w.stop()
	id, err := k.session(w, tracer.SessionSpec{})
	if err != nil {
		return 0, err
	}
	if err := w.grow(n); err != nil {
		return 0, err
	}
	if err := w.in.Close(); err != nil {
		return 0, err
	}
	if err := w.gone(); err != nil {
		return 0, err
	}
	w.reap()
	if err := k.release(id); err != nil {
		return 0, err
	}
	var root, last uint64
	for ev := range events {
		switch {
		case ev.Session != id:
		case ev.Type == tracer.EventSession && ev.State == tracer.StateEmpty:
			return time.Duration(last - root), nil
		case ev.Type == tracer.EventExit && ev.Flags&tracer.FlagRoot != 0:
			root = ev.Time
		case ev.Type == tracer.EventExit:
			last = max(last, ev.Time)
		}
	}
	return 0, errors.New("no events")
}
