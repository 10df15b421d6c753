//go:build linux

package acts

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (s *stage) refused(err error, code string) {
	s.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		s.Errorf("%v, want %s", err, code)
	}
}

// separate and rejoin must not fail.
func (s *stage) separate(b *Branch) {
	s.Helper()
	require.NoError(s, s.of.separate(s.Context(), b))
}

func (s *stage) rejoin(b *Branch) {
	s.Helper()
	require.NoError(s, s.of.rejoin(b))
}

func TestSeparate(t *testing.T) {
	s := newStage(t)
	b := s.branch(101)
	s.separate(b)
	s.in(b.ID, 101, 102)
	s.in(s.from, 100, 105)
	if sessions := b.Sessions(); !slices.Equal(sessions, []tracer.SessionID{b.ID}) || len(s.k.Signals()) > 0 {
		t.Errorf("sessions %v, signals %v", sessions, s.k.Signals())
	}
	s.rejoin(b)
	s.in(s.from, 100, 101, 102, 105)
	s.k.Fail("Snapshot", errors.New("scripted"))
	if err := s.of.holds(&Target{branch: b}, "token"); err == nil {
		t.Error("a plan of members that cannot be read holds")
	}
}

// TestNameTaken: what calls of one id have left ends, although sessions have names of their own.
func TestNameTaken(t *testing.T) {
	s := newStage(t)
	for _, pid := range []uint32{101, 105} {
		b := s.branch(pid)
		b.Call = "one"
		require.NoError(t, s.of.open(b, b.Root))
		s.in(b.ID, pid)
	}
}

// TestGone: if the last process exits right before the session is opened over it, there is
// nothing to end.
func TestGone(t *testing.T) {
	s := newStage(t)
	s.k.creating = func() { s.k.Exit(102, 0); s.k.Exit(101, 0) }
	b := s.branch(101)
	if err := s.of.separate(t.Context(), b); !errors.Is(err, errEmpty) || len(b.Sessions()) > 0 {
		t.Errorf("%v, sessions %v", err, b.Sessions())
	}
	s.in(s.from, 100, 105)
}

// TestEndsTheOthers: a session whose end could not begin is said, and keeps none of the others alive.
func TestEndsTheOthers(t *testing.T) {
	s := newStage(t)
	s.k.Fail("End", errors.New("scripted"))
	s.of.o.Enforcer = enforcer.New(s.k, enforcer.Options{Clock: s.k.Now})
	s.of.o.Log = zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(*zerolog.Event, zerolog.Level, string) { s.k.Fail("End", nil) }))
	b := s.branch(101)
	s.separate(b)
	err := s.of.signal([]tracer.SessionInfo{{ID: s.from}, {ID: b.ID}}, &Order{})
	if p := s.k.Proc(102); err == nil || p != nil && !p.Dead {
		t.Errorf("%v, %+v", err, p)
	}
	s.in(s.from, 100, 105)
}

// TestOverMeanwhile: if all processes of the branch's session exit before the others are moved,
// that session is over and takes none of them. Another one is opened.
func TestOverMeanwhile(t *testing.T) {
	s := newStage(t)
	b := s.branch(101)
	var first tracer.SessionID
	s.k.following = func() {
		if first != 0 {
			return
		}
		first = b.ID
		s.k.Exit(101, 0)
		if info, err := s.k.Settle(b.ID); err != nil || info.State != tracer.StateEmpty {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if err := s.of.separate(t.Context(), b); err != nil || b.ID == 0 || b.ID == first {
		t.Fatalf("session %v, first %v, %v", b.ID, first, err)
	}
	s.in(b.ID, 102)
	s.rejoin(b)
	s.in(s.from, 100, 102, 105)
	if signals := s.k.Signals(); len(signals) > 0 {
		t.Errorf("signals %v", signals)
	}
}

// TestElsewhere: processes that were moved to a session which is not of the branch are left
// there, and the caller gets an error at once.
func TestElsewhere(t *testing.T) {
	s := newStage(t)
	outer, inner := s.branch(101), s.branch(102)
	s.separate(outer)
	began := time.Now()
	s.refused(s.of.separate(t.Context(), inner), api.CodeChanged)
	if took := time.Since(began); took >= settleTime {
		t.Errorf("after %v", took)
	}
	s.in(outer.ID, 101, 102)
	if len(inner.Sessions()) > 0 {
		t.Errorf("sessions %v", inner.Sessions())
	}
	// The other way round the inner one is in a session that the branch opened.
	s = newStage(t)
	outer, inner = s.branch(101), s.branch(102)
	require.NoError(t, errors.Join(s.of.separate(t.Context(), inner), s.of.separate(t.Context(), outer)))
	s.in(inner.ID, 102)
	s.in(outer.ID, 101)
	if !slices.Equal(outer.Nested, []tracer.SessionID{inner.ID}) {
		t.Errorf("nested %v, want %v", outer.Nested, inner.ID)
	}
}

// TestEndsMeanwhile: the end of the whole session overtakes that of a branch.
func TestEndsMeanwhile(t *testing.T) {
	s := newStage(t)
	b := s.branch(101)
	s.k.following = func() {
		for _, id := range []tracer.SessionID{s.from, b.ID} {
			if err := s.k.End(id, tracer.CauseEnd, time.Hour); err != nil {
				t.Error(err)
			}
		}
		s.k.Fail("Follow", tracer.ErrBusy)
	}
	s.refused(s.of.separate(t.Context(), b), api.CodeNotFound)
}

// TestAlone: branches of one session are separated one after the other, those of others
// need not wait.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Acts{busy: make(map[tracer.SessionID]chan struct{})}
		done, err := s.alone(t.Context(), 1)
		require.NoError(t, err)
		if other, err := s.alone(t.Context(), 2); err != nil {
			t.Error(err)
		} else {
			other()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.alone(impatient, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		turns := make(chan func(), 2)
		for range cap(turns) {
			go func() {
				next, err := s.alone(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				turns <- next
			}()
		}
		for range cap(turns) {
			synctest.Wait()
			if len(turns) > 0 {
				t.Error("two at once")
			}
			done()
			done = <-turns
		}
		if done(); len(s.busy) > 0 {
			t.Errorf("%v", s.busy)
		}
	})
}

// TestTooFast: a branch that forks whenever it was looked at is not ended in part. All of it is
// given back.
func TestTooFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		pid := uint32(200)
		s.k.following = func() {
			time.Sleep(settleTime / 10)
			s.k.Fork(102, pid, "lngtest-fast")
			s.k.Edit(pid, func(p *kerneltest.Proc) { p.Session = s.from }) // as if the fork hook had read the session before the move
			pid++
		}
		b := s.branch(101)
		s.refused(s.of.separate(t.Context(), b), api.CodeTooMany)
		if pid < 205 {
			t.Errorf("%d rounds", pid-200)
		}
		s.in(s.from, 100, 101, 102, 105, 200, pid-1)
		if info, err := s.k.Session(b.ID); err == nil && info.State != tracer.StateDissolved {
			t.Errorf("%+v", info)
		}
	})
}

// TestAheadOfTheGraph: the kernel's creators count for processes of which no event has come.
func TestAheadOfTheGraph(t *testing.T) {
	s := newStage(t)
	s.k.reading.Lock()
	defer s.k.reading.Unlock()
	s.k.Fork(102, 103, "lngtest-new")
	s.k.Fork(103, 104, "lngtest-new")
	s.k.Fork(105, 106, "lngtest-new")
	members, err := s.of.branchMembers(s.branch(101))
	if got := pids(members); err != nil || !slices.Equal(got, []uint32{101, 102, 103, 104}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestLateEvents: the search does not end before the events of the processes that it met are
// in. Without them nobody knows who created a process whose creator is dead.
func TestLateEvents(t *testing.T) {
	s := newStage(t)
	s.k.reading.Lock()
	come := sync.OnceFunc(s.k.reading.Unlock)
	defer come()
	s.k.Fork(102, 103, "lngtest-new")
	s.k.Fork(103, 104, "lngtest-orphan")
	s.k.Exit(103, 0)
	rounds := 0
	s.k.following = func() {
		if rounds++; rounds == 2+calmRounds {
			come()
		}
	}
	b := s.branch(101)
	s.separate(b)
	s.in(b.ID, 101, 102, 104)
	s.in(s.from, 100, 105)
}

// TestBrokeredWork: work that another daemon did for the branch is of the branch if it is in the
// session, not if it is held in a companion session.
func TestBrokeredWork(t *testing.T) {
	s := newStage(t)
	for pid := range uint32(3) {
		s.k.Add(300+pid, 1, "lngtest-work")
	}
	require.NoError(t, s.k.Enter(0, s.from, s.k.Proc(300).Identity, s.k.Proc(102).Identity, tracer.SourceEnv))
	companion, err := s.k.Create(tracer.SessionSpec{Root: s.k.Proc(301).Identity, UID: 1000, For: s.from, Weak: true})
	require.NoError(t, err)
	require.NoError(t, s.k.Enter(0, companion, s.k.Proc(302).Identity, s.k.Proc(102).Identity, tracer.SourceUnit))
	b := s.branch(101)
	members, err := s.of.branchMembers(b)
	if got := pids(members); err != nil || !slices.Equal(got, []uint32{101, 102, 300}) {
		t.Errorf("%v, %v", got, err)
	}
	s.separate(b)
	s.in(b.ID, 101, 102, 300)
	s.in(companion, 301, 302)
}
