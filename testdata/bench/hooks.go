//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// A load is how often something happens: caches are cold when it is seldom.
var loads = []struct {
	name  string
	count int
	pause time.Duration
}{
	{"idle", 60, 3 * time.Millisecond},
	{"busy", 2000, 0},
}

// hooks: a process on each CPU execs a program, with and without a pause, and
// the kernel counts the time of each program (bpf_stats). Strangers and members
// in turn.
func hooks(ctx context.Context, r *report) (err error) {
	const rounds = 10
	k, err := newMetered()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	teams := map[string][]*worker{}
	for _, who := range []string{"stranger", "member"} {
		for range 2 {
			w, err := start(ctx, -1, "pulse")
			if err != nil {
				return err
			}
			defer w.stop()
			teams[who] = append(teams[who], w)
			if who == "stranger" {
				continue
			}
			id, err := k.session(w, tracer.SessionSpec{})
			if err != nil {
				return err
			}
			defer func() { w.stop(); err = errors.Join(err, k.release(id)) }()
		}
	}
	for range rounds {
		for _, load := range loads {
			for _, who := range []string{"stranger", "member"} {
				did, err := k.m.during(func() error { return together(teams[who], "exec", load.count, load.pause) })
				if err != nil {
					return err
				}
				did.tell(r, "Hooks/who="+who+"/load="+load.name)
			}
		}
	}
	return nil
}

// together has all of them do the same at once.
func together(team []*worker, kind string, count int, pause time.Duration) error {
	done := make(chan error, len(team))
	for _, w := range team {
		go func() {
			_, err := w.do(kind, count, pause)
			done <- err
		}()
	}
	var errs []error
	for range team {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}
