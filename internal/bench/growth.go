//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// The growth parts measure what a member's events, a pass and a snapshot cost among
// many: live processes, live sessions, and ancestors.

// A stand is a kernel side and a member that makes events.
type stand struct {
	*kernel
	member *worker
	id     tracer.SessionID
}

func newStand(ctx context.Context) (s *stand, err error) {
	s = &stand{}
	if s.kernel, err = trace(); err != nil {
		return nil, err
	}
	if s.member, err = start(ctx, -1, "pulse"); err == nil {
		s.id, err = s.session(s.member)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stand) close() error {
	var errs []error
	if s.member != nil {
		s.member.stop()
	}
	if s.id != 0 {
		errs = append(errs, s.release(s.id))
	}
	return errors.Join(append(errs, s.kernel.close())...)
}

// measure takes the samples for one size.
func (s *stand) measure(r *report, name string) error {
	const rounds = 5
	for range rounds {
		err := s.during(r, name, func() error { return s.member.do("exec", 300, 0) })
		if err != nil {
			return err
		}
		began := time.Now()
		pass, err := s.Sentence()
		if err != nil {
			return err
		}
		r.took(name+"/do=pass", time.Since(began))
		r.sample(name+"/do=pass", 1, float64(pass.Visited), "processes")
		began, n := time.Now(), 0
		if err := s.Snapshot(0, func(*tracer.Process) error { n++; return nil }); err != nil {
			return err
		}
		r.took(name+"/do=snapshot", time.Since(began))
		r.sample(name+"/do=snapshot", 1, float64(n), "processes")
	}
	return nil
}

// grow is a part that measures on a stand of its own.
func grow(among func(context.Context, *report, *stand) error) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) (err error) {
		s, err := newStand(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		return among(ctx, r, s)
	}
}

// fill makes a crowd grow, if there is room on this host.
func fill(w *worker, n int) error {
	if err := roomFor(n); err != nil {
		return err
	}
	return w.grow(n)
}

// amongProcesses fills one session with waiting processes, and finally ends it.
func amongProcesses(ctx context.Context, r *report, s *stand) error {
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	id, err := s.session(w)
	if err != nil {
		return err
	}
	have := 0
	for _, n := range live {
		if err := fill(w, n-have); err != nil {
			return err
		}
		have = n
		if err := s.measure(r, fmt.Sprintf("Growth/live=%d", n)); err != nil {
			return err
		}
	}
	if err := errors.Join(s.End(id, tracer.CauseEnd, 0), w.gone()); err != nil {
		return err
	}
	w.reap()
	return s.release(id)
}

// amongSessions has one process in each of many sessions.
func amongSessions(ctx context.Context, r *report, s *stand) error {
	const most = 10000
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	if err := fill(w, most); err != nil {
		return err
	}
	var crowd []tracer.Identity
	if err := s.Snapshot(0, func(p *tracer.Process) error {
		if p.Parent.PID == uint32(w.pid()) {
			crowd = append(crowd, p.Identity)
		}
		return nil
	}); err != nil {
		return err
	}
	var ids []tracer.SessionID
	for _, n := range []int{1, 100, 1000, most} {
		for len(ids) < n && len(ids) < len(crowd) {
			id, err := s.Create(tracer.SessionSpec{Root: crowd[len(ids)]})
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if err := s.measure(r, fmt.Sprintf("Growth/sessions=%d", n)); err != nil {
			return err
		}
	}
	w.stop()
	for _, id := range ids {
		if err := s.release(id); err != nil {
			return err
		}
	}
	return nil
}

// amongAncestors has a member with many ancestors.
func amongAncestors(_ context.Context, r *report, s *stand) error {
	depth := 0
	for _, n := range []int{1, 100, 1000, 5000} {
		if err := s.member.do("deep", n-depth, 0); err != nil {
			return err
		}
		depth = n
		if err := s.measure(r, fmt.Sprintf("Growth/depth=%d", n)); err != nil {
			return err
		}
	}
	return nil
}
