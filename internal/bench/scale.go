//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

// scaleEach is how many processes a session of scale has.
const scaleEach = 100

// scale has more and more sessions of a hundred processes each on one host. It asks the
// daemon about all and about one, ends one, and starts another daemon that takes over.
func scale(ctx context.Context, r *report) (err error) {
	const rounds = 3
	d, err := startDaemon(ctx, lineageBin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	time.Sleep(2 * time.Second) // after the self-check it frees memory
	if err := d.memory(r, 0); err != nil {
		return err
	}
	var sessions []*api.Session
	for _, n := range live {
		for len(sessions) < n/scaleEach {
			w, s, err := d.crowd(ctx, scaleEach)
			if err != nil {
				return err
			}
			defer w.stop()
			sessions = append(sessions, s)
		}
		if len(sessions) == 0 {
			continue
		}
		if err := d.knows(ctx, sessions[len(sessions)-1].ID, scaleEach-1); err != nil {
			return err
		}
		name := func(what string) string { return fmt.Sprintf("Scale/live=%d/do=%s", n, what) }
		for round := range rounds {
			one := sessions[len(sessions)*round/rounds]
			for _, q := range append(d.questions(ctx, one.ID, one.Root.PID),
				question{"picture", func() error { return d.picture(ctx) }}, question{"takeover", func() error { return d.again(ctx) }}) {
				began := time.Now()
				if err := q.ask(); err != nil {
					return fmt.Errorf("%s of %d: %w", q.what, n, err)
				}
				r.took(name(q.what), time.Since(began))
			}
			w, s, err := d.crowd(ctx, scaleEach)
			if err != nil {
				return err
			}
			began := time.Now()
			err = d.end(ctx, s.ID)
			r.took(name("end"), time.Since(began))
			w.stop()
			if err != nil {
				return err
			}
		}
		if err := d.memory(r, n); err != nil {
			return err
		}
	}
	return nil
}

// crowd makes a session of n processes.
func (d *daemon) crowd(ctx context.Context, n int) (*worker, *api.Session, error) {
	if err := roomFor(n); err != nil {
		return nil, nil, err
	}
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return nil, nil, err
	}
	grace := int64(0)
	s, err := d.Create(ctx, api.NewSession{Root: api.Ref{PID: w.pid()}, GraceMS: &grace})
	if err == nil {
		err = w.grow(n - 1)
	}
	if err != nil {
		w.stop()
		return nil, nil, err
	}
	return w, s, nil
}

// picture reads the live picture of all sessions once, as lineage top does when it starts.
func (d *daemon) picture(ctx context.Context) error {
	whole := errors.New("that was all")
	err := d.Watch(ctx, api.WatchQuery{}, func(f *api.Frame) error {
		if f.Kind != "heartbeat" && !f.Partial { // after a part of a snapshot diffs follow
			return whole
		}
		return nil
	})
	if errors.Is(err, whole) {
		return nil
	}
	return err
}

// again stops the daemon and starts another one for the same sessions.
func (d *daemon) again(ctx context.Context) error {
	if err := errors.Join(d.Close(), d.cmd.Process.Signal(unix.SIGTERM), d.cmd.Wait()); err != nil {
		return err
	}
	d.Client = nil
	return d.run(ctx, d.cmd.Path)
}
