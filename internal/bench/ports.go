//go:build linux

package main

import (
	"context"
	"errors"

	"github.com/lineage-ebpf/lineage/tracer"
)

// ports: an outsider and a member open and close TCP connections. The kernel counts the time
// of our program and of an empty one on each change of a socket's state (bpf_stats).
func ports(ctx context.Context, r *report) (err error) {
	const rounds, connections = 10, 5000
	k, err := newMetered()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	for _, who := range []string{"stranger", "member"} {
		w, err := start(ctx, -1, "listen")
		if err != nil {
			return err
		}
		defer w.stop()
		if who == "member" {
			id, err := k.session(w, tracer.SessionSpec{})
			if err != nil {
				return err
			}
			defer func() { w.stop(); err = errors.Join(err, k.release(id)) }()
		}
		for range rounds {
			did, err := k.m.during(func() error { _, err := w.do("connect", connections, 0); return err })
			if err != nil {
				return err
			}
			did.tell(r, "Ports/who="+who)
		}
	}
	return nil
}
