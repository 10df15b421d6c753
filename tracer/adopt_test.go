//go:build linux

package tracer_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// A running process with children: one is protected, and one has started a process whose PID is lower, which a walk by PIDs meets first.
func TestAdopt(t *testing.T) { onEachSide(t, testAdopt) }

func testAdopt(t *testing.T, tr *tracer.Tracer) {
	w := start(
		t,
		`sleep 60 & echo $!; sh -c 'echo 300 >/proc/sys/kernel/ns_last_pid; sleep 61 & echo $!; wait' & echo $!; read go; sleep 62 & echo $!; while read go; do sleep 63 & echo $!; done`,
	)
	w.goOn()
	child, a, b := parse(t, w.line()), parse(t, w.line()), parse(t, w.line())
	w.goOn()
	guarded := parse(t, w.line())
	require.NoError(t, tr.Protect(guarded))
	t.Cleanup(func() { unix.Kill(int(guarded), unix.SIGKILL) })
	id := create(t, tr, w, tracer.SessionSpec{Adopted: true, Name: "found"})
	n, err := tr.Adopt(id, 0)
	if err != nil || n != 3 {
		t.Errorf("adopted %d: %v", n, err)
	}
	for _, pid := range []uint32{child, a, b} {
		e, err := tr.Lookup(pid)
		if err != nil || e.Session != id || e.Evidence != tracer.EvidenceAdopted || e.Source != tracer.SourceParent || !e.Source.Strong() || e.Creator.PID == 0 {
			t.Errorf("%d: %+v, %v", pid, e, err)
		}
	}
	if e, err := tr.Lookup(w.pid()); err != nil || e.Evidence != tracer.EvidenceRoot || e.Source != tracer.SourceRequest {
		t.Errorf("root: %+v, %v", e, err)
	}
	if e, err := tr.Lookup(guarded); err != nil || e.Session != 0 {
		t.Errorf("protected: %+v, %v", e, err)
	}
	w.goOn()
	if e, err := tr.Lookup(parse(t, w.line())); err != nil || e.Session != id || e.Evidence != tracer.EvidenceFork {
		t.Errorf("born after: %+v, %v", e, err)
	}
	if s, err := tr.Session(id); err != nil || s.Live != 5 || s.Forks != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	tr.End(id, tracer.CauseEnd, 0)
	unix.Kill(int(guarded), unix.SIGKILL)
	w.gone()
	w.wait()
	settled(t, tr, id)
}

// Fifty threads fork all the time while their process is adopted. None of their
// children is missed: no process is left when the session has ended. 5 rounds, or
// LNGTEST_ROUNDS.
func TestAdoptWhileForking(t *testing.T) { onEachSide(t, testAdoptWhileForking) }

func testAdoptWhileForking(t *testing.T, tr *tracer.Tracer) {
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	if text := os.Getenv("LNGTEST_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		rounds = n
	}
	walked := 0
	for range rounds {
		w := program(t, "forkers", "50", lifetime)
		w.goOn()
		w.until("ready")
		id := create(t, tr, w, tracer.SessionSpec{Adopted: true})
		n, err := tr.Adopt(id, 0)
		require.NoError(t, err)
		walked += n
		endAll(t, tr, id, w)
		require.NoError(t, tr.Release(id))
	}
	t.Logf("figure: nobody missed in %d of %d rounds; %d entered by walks", rounds, rounds, walked)
}

// An outsider is entered on evidence, with its descendants.
func TestEnter(t *testing.T) { onEachSide(t, testEnter) }

func testEnter(t *testing.T, tr *tracer.Tracer) {
	w, outsider := start(t, "read go"), start(t, "sleep 60 & echo $!; wait")
	id := create(t, tr, w, tracer.SessionSpec{})
	outsider.goOn()
	child := parse(t, outsider.line())
	who := identify(t, tr, outsider.pid())
	asked := identify(t, tr, w.pid())
	require.ErrorIs(t, tr.Enter(0, id, tracer.Identity{PID: who.PID, Start: who.Start + 1}, asked, tracer.SourceEnv), tracer.ErrNotFound, "another process by that PID")
	require.NoError(t, tr.Enter(0, id, who, asked, tracer.SourceEnv))
	require.ErrorIs(t, tr.Enter(0, id, who, asked, tracer.SourceEnv), tracer.ErrProtected, "entered twice")
	if n, err := tr.Adopt(id, 0); err != nil || n != 1 {
		t.Errorf("adopted %d: %v", n, err)
	}
	if e, err := tr.Lookup(who.PID); err != nil || e.Session != id || e.Source != tracer.SourceEnv || e.Creator != asked {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != id {
		t.Errorf("%+v, %v", e, err)
	}
	tr.End(id, tracer.CauseEnd, 0)
	outsider.gone()
	outsider.wait()
	w.wait()
	settled(t, tr, id)
}

// On better evidence the root of a session that outlives its root moves to another
// session. What it forked follows, and it ends with that session.
func TestRaise(t *testing.T) { onEachSide(t, testRaise) }

func testRaise(t *testing.T, tr *tracer.Tracer) {
	w, outsider := start(t, "read go"), start(t, "sleep 60 & echo $!; wait")
	id := create(t, tr, w, tracer.SessionSpec{})
	companion := create(t, tr, outsider, tracer.SessionSpec{Adopted: true, KeepOnRootExit: true, Source: tracer.SourceSocket, For: id, Weak: true})
	if info, err := tr.Session(companion); err != nil || info.For != id || !info.Weak || info.Name != "" {
		t.Errorf("%+v, %v", info, err)
	}
	require.NoError(t, tr.SetTerms(companion, tracer.SessionSpec{KeepOnRootExit: true, For: id}))
	if info, err := tr.Session(companion); err != nil || info.For != id || info.Weak || info.Name != "" {
		t.Errorf("%+v, %v", info, err)
	}
	outsider.goOn()
	child := parse(t, outsider.line())
	who := identify(t, tr, outsider.pid())
	asked := identify(t, tr, w.pid())
	require.ErrorIs(t, tr.Enter(id, id, who, asked, tracer.SourceEnv), tracer.ErrProtected, "from a session that it is not in")
	require.NoError(t, tr.Enter(companion, companion, who, asked, tracer.SourceUnit))
	if e, err := tr.Lookup(who.PID); err != nil || e.Session != companion || e.Source != tracer.SourceUnit {
		t.Errorf("%+v, %v", e, err)
	}
	require.NoError(t, tr.Enter(companion, id, who, asked, tracer.SourceEnv))
	if n, err := tr.Follow(companion, id); err != nil || n != 1 {
		t.Errorf("%d followed: %v", n, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != id {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := tr.Lookup(who.PID); err != nil || e.Session != id || e.Source != tracer.SourceEnv || e.Evidence != tracer.EvidenceAdopted || e.Creator != asked {
		t.Errorf("%+v, %v", e, err)
	}
	if info, err := tr.Session(companion); err != nil || info.Live != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err := tr.Session(id); err != nil || info.Live != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	settled(t, tr, companion)
	tr.End(id, tracer.CauseEnd, 0)
	outsider.gone()
	outsider.wait()
	w.wait()
	settled(t, tr, id)
}
