//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// The growth parts measure what a member's events, a pass and a snapshot cost among
// many: live processes, live sessions, and ancestors.

// A stand is a metered kernel side and a member that makes events.
type stand struct {
	*metered
	member *worker
	id     tracer.SessionID
}

func newStand(ctx context.Context) (s *stand, err error) {
	s = &stand{}
	if s.metered, err = newMetered(); err != nil {
		return nil, err
	}
	if s.member, err = start(ctx, -1, "pulse"); err == nil {
		s.id, err = s.session(s.member, tracer.SessionSpec{})
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
	return errors.Join(append(errs, s.metered.close())...)
}

// measure takes the samples for one size.
func (s *stand) measure(r *report, name string) error {
	const rounds = 5
	for range rounds {
		did, err := s.m.during(func() error {
			_, err := s.member.do("exec", 300, 0)
			return err
		})
		if err != nil {
			return err
		}
		did.tell(r, name)
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

// sizes are numbers of processes, ascending.
type sizes []int

// live is bounded by pid_max, which is 32,768 unless it was raised.
var live = sizes{100, 1000, 10000, 20000}

func (s *sizes) String() string { return strings.Trim(fmt.Sprint([]int(*s)), "[]") }

// Set reads numbers separated by spaces.
func (s *sizes) Set(text string) error {
	*s = nil
	for _, word := range strings.Fields(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		*s = append(*s, n)
	}
	if len(*s) == 0 || (*s)[0] < 1 || !slices.IsSorted(*s) {
		return errors.New("want positive numbers in ascending order")
	}
	return nil
}

// growProcesses fills one session with waiting processes, and finally ends it.
func growProcesses(ctx context.Context, r *report) (err error) {
	s, err := newStand(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	w, err := start(ctx, -1, "crowd")
	if err != nil {
		return err
	}
	defer w.stop()
	id, err := s.session(w, tracer.SessionSpec{})
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
	began := time.Now()
	if err := s.End(id, tracer.CauseEnd, 0); err != nil {
		return err
	}
	if err := w.gone(); err != nil {
		return err
	}
	r.took(fmt.Sprintf("Growth/live=%d/do=end", have), time.Since(began))
	w.reap()
	return s.release(id)
}

// fill makes a crowd grow, if there is room on this host.
func fill(w *worker, n int) error {
	if err := roomFor(n); err != nil {
		return err
	}
	return w.grow(n)
}

// growSessions has one process in each of many sessions.
func growSessions(ctx context.Context, r *report) (err error) {
	const most = 10000
	s, err := newStand(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
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
		began, made := time.Now(), 0
		for len(ids) < n && len(ids) < len(crowd) {
			id, err := s.Create(tracer.SessionSpec{Root: crowd[len(ids)]})
			if err != nil {
				return err
			}
			ids = append(ids, id)
			made++
		}
		name := fmt.Sprintf("Growth/sessions=%d", n)
		r.sample(name+"/do=create", uint64(made), float64(time.Since(began).Nanoseconds())/float64(made), "ns/op")
		if err := s.measure(r, name); err != nil {
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

// growDepth has a member with many ancestors.
func growDepth(ctx context.Context, r *report) (err error) {
	s, err := newStand(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	depth := 0
	for _, n := range []int{1, 100, 1000, 5000} {
		if _, err := s.member.do("deep", n-depth, 0); err != nil {
			return err
		}
		depth = n
		if err := s.measure(r, fmt.Sprintf("Growth/depth=%d", n)); err != nil {
			return err
		}
	}
	return nil
}
