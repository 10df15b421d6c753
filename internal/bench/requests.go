//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// requests asks a daemon for the list, a session's tree and why a process is in it,
// while more and more processes live in that session, and samples its memory.
func requests(ctx context.Context, r *report) (err error) {
	const rounds = 7
	d, err := startDaemon(ctx, lineageBin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	s, err := d.adopt(ctx, w)
	if err != nil {
		return err
	}
	have := 0
	for _, n := range live {
		if err := fill(w, n-have); err != nil {
			return err
		}
		have = n
		if err := d.knows(ctx, s.ID, n); err != nil {
			return err
		}
		for range rounds {
			for _, q := range []struct {
				name string
				ask  func() error
			}{
				{"ls", func() error { _, err := d.Sessions(ctx, "", ""); return err }},
				{"tree", func() error { _, err := d.Tree(ctx, s.ID, ""); return err }},
				{"why", func() error { _, err := d.Why(ctx, fmt.Sprint(w.pid())); return err }},
			} {
				began := time.Now()
				if err := q.ask(); err != nil {
					return fmt.Errorf("%s: %w", q.name, err)
				}
				r.took(fmt.Sprintf("Request/live=%d/ask=%s", n, q.name), time.Since(began))
			}
		}
		if err := d.memory(r, n); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := d.end(ctx, s.ID); err != nil {
		return err
	}
	r.took(fmt.Sprintf("Request/live=%d/ask=end", have), time.Since(began))
	return nil
}

// knows waits until the daemon's picture has all of them.
func (d *daemon) knows(ctx context.Context, id string, n int) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		t, err := d.Tree(ctx, id, "")
		if err != nil {
			return err
		}
		if len(t.Nodes) == n+1 {
			return nil
		}
	}
	return fmt.Errorf("session %s: not %d processes after 30 s", id, n)
}
