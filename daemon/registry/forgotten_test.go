//go:build linux

package registry

import (
	"errors"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestForgottenOnce: a session that was forgotten after its end, while the kernel had to keep its
// record, is not held again and does not end twice.
func TestForgottenOnce(t *testing.T) {
	o, k := newRegistry(t)
	closed := make(map[tracer.SessionID]int)
	o.Attach(&Hooks{Closed: func(_ View, s *Session) { closed[s.ID()]++ }})
	s := session(t, o, k, 100)
	id := s.ID()
	nested := inside(t, o, k, 100, 101)
	require.NoError(t, k.End(id, tracer.CauseEnd, 0))
	over(o, s) // the record of the nested session keeps that of the outer one
	o.ended = newRetained(MaxEnded, maxReceipts, func(*Session) {})
	o.drop(s)
	look := func() {
		infos, err := k.Sessions()
		require.NoError(t, err)
		o.known(infos)
	}
	if look(); o.sessionOf(id) != nil || o.sessions[id] != nil {
		t.Error("it is held again")
	}
	if _, err := k.Session(id); err != nil {
		t.Fatalf("the kernel has released it: %v", err)
	}
	over(o, nested)
	if look(); closed[id] != 1 {
		t.Errorf("it has ended %d times", closed[id])
	}
	if _, err := k.Session(id); err == nil || len(o.looks.unreleased) > 0 {
		t.Errorf("%v, not released: %v", err, o.looks.unreleased)
	}
}

// TestReleasedWithoutSessions: the record of an outer session is released though no session lives any longer: with
// that of the inner one, or by a look if the kernel could not be asked.
func TestReleasedWithoutSessions(t *testing.T) {
	for _, looks := range []int{0, 2 * system.LooksApart} {
		releasedAfter(t, looks)
	}
}

func releasedAfter(t *testing.T, looks int) {
	t.Helper()
	o, k := newRegistry(t)
	runs(t, o)
	s := session(t, o, k, 100)
	id := s.ID()
	nested := inside(t, o, k, 100, 101)
	require.NoError(t, k.End(id, tracer.CauseEnd, 0))
	if looks > 0 {
		k.Fail("Settle", errors.New("refused"))
	} else {
		_, err := k.Settle(nested.ID())
		require.NoError(t, err)
	}
	require.NoError(t, o.Update(func(Tx) { over(o, s); over(o, nested) }))
	k.Fail("Settle", nil)
	for range looks {
		_, err := o.looks.sample(CauseNone, true)
		require.NoError(t, err)
	}
	if all, err := k.Sessions(); err != nil || len(all) > 0 {
		t.Errorf("not released after %d looks: %+v, %v", looks, all, err)
	}
}

// TestNotForgottenByAFailure: a session that the kernel could not be asked for once is held when it can.
func TestNotForgottenByAFailure(t *testing.T) {
	o, k := newRegistry(t)
	id := unheard(t, k, 100)
	k.Fail("Session", errors.New("refused"))
	if o.sessionOf(id) != nil {
		t.Error("it is held without its record")
	}
	k.Fail("Session", nil)
	if o.sessionOf(id) == nil {
		t.Error("it is not held")
	}
}

// TestUndoneCreate: a session that could not be read after it was opened does not stay, because the caller got an
// error.
func TestUndoneCreate(t *testing.T) {
	o, k := newRegistry(t)
	k.Add(100, 1, "lngtest-root")
	k.Fail("Session", errors.New("refused"))
	if s, err := (Tx{o.view()}).Create(tracer.SessionSpec{Root: k.Proc(100).Identity}); err == nil {
		t.Fatalf("opened: %v", s.ID())
	}
	k.Fail("Session", nil)
	infos, err := k.Sessions()
	require.NoError(t, err)
	o.known(infos)
	if all, err := k.Sessions(); err != nil || len(all) > 0 || len(o.sessions) > 0 || k.Proc(100).Session != 0 {
		t.Errorf("it stays: %+v, %v; held: %d", all, err, len(o.sessions))
	}
}

// TestUnheardDeath: a receipt says that a death may be missing if the kernel could not be asked for the session when
// that was reported.
func TestUnheardDeath(t *testing.T) {
	o, k := newRegistry(t)
	id := unheard(t, k, 100)
	k.Fail("Session", errors.New("refused"))
	o.apply([]tracer.Event{{Type: tracer.EventExit, Process: k.Proc(100).Identity, Session: id}})
	k.Fail("Session", nil)
	s := o.sessionOf(id)
	if s == nil {
		t.Fatal("it is not held")
	}
	if over(o, s); !s.report.Truncated {
		t.Errorf("the receipt is whole: %+v", s.report)
	}
}

// TestLostBeforeItWasHeld: so does one of a session that was opened, and lost a member, before the daemon knew of it.
func TestLostBeforeItWasHeld(t *testing.T) {
	o, k := newRegistry(t)
	id := unheard(t, k, 100)
	k.Advance(time.Second)
	o.apply([]tracer.Event{{Type: tracer.EventLost, Count: 1, Time: uint64(k.Now())}})
	s := o.sessionOf(id)
	if over(o, s); !s.report.Truncated {
		t.Errorf("the receipt is whole: %+v", s.report)
	}
}
