//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// until polls, and fails with the message of wrong. After a sequence has failed it
// waits for a shorter time, because rapid repeats the failure many times.
func (w *world) until(wrong func() string) {
	w.t.Helper()
	limit := patience
	if w.failing {
		limit = patience / 20
	}
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		what := wrong()
		if what == "" {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("still not after a while: %s", what)
		}
		w.nudge()
	}
}

// nudge does what a daemon does when an event arrives. At level 4 the kernel side needs
// it only for deadlines.
func (w *world) nudge() {
	_, err := w.tr.Sentence()
	w.must(err, "carry out the sentence")
	w.must(w.tr.CountReaped(), "count who was reaped")
}

// agree waits until the real world matches the oracle.
func (w *world) agree() {
	w.t.Helper()
	w.settled()
	w.until(func() string {
		for _, differs := range []func() string{w.lives, w.onRecord, w.entered} {
			if what := differs(); what != "" {
				return what
			}
		}
		return ""
	})
}

// lives compares which processes are alive, as they report it themselves.
func (w *world) lives() string {
	for _, p := range append([]*process{w.keeper}, w.processes...) {
		if p.dead {
			if !gone(p.channel) {
				return w.survives(p)
			}
			continue
		}
		said, err := ask(p.channel, "ping")
		if errors.Is(err, errGone) {
			w.t.Fatalf("%s of %s is dead", p.name, named(p.in))
		}
		w.must(err, "ask %s", p.name)
		if said == "pong term" {
			p.heard++
		}
		if p.heard > p.terms {
			w.t.Fatalf("%s of %s got SIGTERM %d times, want %d", p.name, named(p.in), p.heard, p.terms)
		}
		if p.heard < p.terms {
			return fmt.Sprintf("%s of %s got no SIGTERM", p.name, named(p.in))
		}
	}
	return ""
}

// survives fails at once if a session of the process was reported as empty.
func (w *world) survives(p *process) string {
	for s := p.in; s != nil; s = s.parent {
		if info, err := w.tr.Settle(s.id); err == nil && info.State == tracer.StateEmpty && !gone(p.channel) {
			w.t.Fatalf("%s is ended, and %s of it lives", s.name, p.name)
		}
	}
	return fmt.Sprintf("%s of %s lives", p.name, named(p.in))
}

// onRecord compares the sessions and their counts.
func (w *world) onRecord() string {
	for _, s := range w.sessions {
		if s.state == dissolved {
			continue
		}
		if _, err := w.tr.Settle(s.id); err != nil {
			return fmt.Sprintf("%s cannot be settled", s.name)
		}
	}
	all, err := w.tr.Sessions()
	w.must(err, "list the sessions")
	for _, s := range w.sessions {
		i := slices.IndexFunc(all, func(i tracer.SessionInfo) bool { return i.ID == s.id })
		if i < 0 {
			return fmt.Sprintf("%s is not on record", s.name)
		}
		info := all[i]
		if in := w.of(info.Parent); in != s.parent.home() {
			return fmt.Sprintf("%s is nested in %s, want %s", s.name, named(in), named(s.parent.home()))
		}
		if got := info.State; got != s.state || info.Cause == tracer.CauseMaxProcesses {
			return fmt.Sprintf("%s is %v by %v, want %v", s.name, got, info.Cause, s.state)
		}
		if info.Live != int64(s.live) || info.Dying != 0 || info.Unreaped != int64(s.unreaped) {
			return fmt.Sprintf("%s has live %d, dying %d, unreaped %d, want %d, 0, %d", s.name, info.Live, info.Dying, info.Unreaped, s.live, s.unreaped)
		}
		if !s.anyForks && info.Forks != uint64(s.forks) {
			return fmt.Sprintf("%s has forks %d, want %d", s.name, info.Forks, s.forks)
		}
	}
	if len(all) != len(w.sessions) {
		return fmt.Sprintf("%d sessions are on record, want %d", len(all), len(w.sessions))
	}
	return ""
}

// entered compares the session of each process, by its entry and by each session's snapshot.
func (w *world) entered() string {
	is := map[tracer.Identity]tracer.Process{}
	err := w.tr.Snapshot(0, func(p *tracer.Process) error {
		if p.Session != 0 {
			is[p.Identity] = *p
		}
		return nil
	})
	w.must(err, "make a snapshot")
	for _, p := range w.processes {
		seen, member := is[p.id]
		delete(is, p.id)
		s := p.in
		switch {
		case p.reaped:
		case member && w.of(seen.Session) == nil:
			return fmt.Sprintf("%s is in a session that is not on record", p.name)
		case w.of(seen.Session) != s:
			return fmt.Sprintf("%s is in %s, want %s", p.name, named(w.of(seen.Session)), named(s))
		case member && seen.Dead != p.dead:
			return fmt.Sprintf("%s of %s is dead: %v, want %v", p.name, named(s), seen.Dead, p.dead)
		}
	}
	if len(is) > 0 {
		return fmt.Sprintf("%d processes of others are members", len(is))
	}
	for _, s := range w.sessions {
		if what := w.inside(s); what != "" {
			return what
		}
	}
	return ""
}

func (w *world) inside(s *session) string {
	is := map[tracer.Identity]bool{}
	err := w.tr.Snapshot(s.id, func(p *tracer.Process) error { is[p.Identity] = true; return nil })
	w.must(err, "make a snapshot of %s", s.name)
	for _, p := range w.processes {
		if want := !p.reaped && p.in.within(s); is[p.id] != want {
			return fmt.Sprintf("%s is in the snapshot of %s: %v, want %v", p.name, s.name, is[p.id], want)
		}
		delete(is, p.id)
	}
	if len(is) > 0 {
		return fmt.Sprintf("the snapshot of %s has %d others", s.name, len(is))
	}
	return ""
}

// counters checks that nothing was counted that must not happen in these sequences.
func (w *world) counters() {
	all, err := w.tr.Counters()
	w.must(err, "read the counters")
	for _, name := range []string{"enter_failed", "stale_entries", "reconciled", "live_drift", "delete_failed"} {
		if all[name] != 0 {
			w.t.Fatalf("%s is %d", name, all[name])
		}
	}
}
