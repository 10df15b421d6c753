//go:build linux

package tracer_test

import (
	"errors"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// nestingAgents opens sessions for agentName, inside other sessions too.
func nestingAgents(t *testing.T, tr *tracer.Tracer) {
	t.Helper()
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName, Nests: true}}))
}

// live fails the test unless the sessions have these live members.
func live(t *testing.T, tr *tracer.Tracer, want map[tracer.SessionID]int64) {
	t.Helper()
	for id, n := range want {
		if s, err := tr.Session(id); err != nil || s.Live != n {
			t.Errorf("session %v: %d live, want %d (%v)", id, s.Live, n, err)
		}
	}
}

// running asks the task list whether a process is alive.
func running(t *testing.T, tr *tracer.Tracer, pid uint32) (alive bool) {
	t.Helper()
	err := tr.Snapshot(0, func(p *tracer.Process) error {
		alive = alive || p.PID == pid && !p.Dead
		return nil
	})
	require.NoError(t, err)
	return alive
}

func inSession(t *testing.T, tr *tracer.Tracer, pid uint32, id tracer.SessionID) {
	t.Helper()
	if e, err := tr.Lookup(pid); err != nil || e.Session != id {
		t.Errorf("pid %d is in session %v, want %v (%v)", pid, e.Session, id, err)
	}
}

// A lookalike inside a lookalike inside a session: both are released, the outer one
// first. What they ran stays in the session around them, and ends with it.
func TestDissolveWithNested(t *testing.T) { onEachSide(t, testDissolveWithNested) }

func testDissolveWithNested(t *testing.T, tr *tracer.Tracer) {
	nestingAgents(t, tr)
	inner := shellNamed(t, agentName)
	w := start(t, inner+` -c '`+inner+` -c "sleep 60 & echo \$\$; wait" & echo $$; wait' & wait`)
	around := create(t, tr, w, tracer.SessionSpec{Name: "around"})
	w.goOn()
	outerPID, innerPID := parse(t, w.line()), parse(t, w.line())
	if outerPID > innerPID {
		outerPID, innerPID = innerPID, outerPID
	}
	a, b := opened(t, tr, outerPID), opened(t, tr, innerPID)
	if a.Parent != around || b.Parent != a.ID {
		t.Fatalf("nested in %v and %v", a.Parent, b.Parent)
	}
	until(t, "the innermost has its child", func() bool { s, err := tr.Session(b.ID); return err == nil && s.Live == 2 })

	if n, err := tr.Dissolve(a.ID); n != 1 || err != nil {
		t.Errorf("let go %d: %v", n, err)
	}
	inSession(t, tr, outerPID, around)
	require.Equal(t, opened(t, tr, innerPID).Parent, around)
	live(t, tr, map[tracer.SessionID]int64{around: 4, a.ID: 2, b.ID: 2})
	require.ErrorIs(t, tr.Release(a.ID), tracer.ErrBusy, "released with a session nested in it")
	if s, err := tr.Session(a.ID); err != nil || s.State != tracer.StateDissolved {
		t.Errorf("after a release that was refused: %+v, %v", s, err)
	}
	if n, err := tr.Dissolve(b.ID); n != 2 || err != nil {
		t.Errorf("let go %d: %v", n, err)
	}
	inSession(t, tr, innerPID, around)
	live(t, tr, map[tracer.SessionID]int64{around: 4, a.ID: 0, b.ID: 0})
	for _, id := range []tracer.SessionID{b.ID, a.ID} {
		require.NoError(t, tr.Release(id))
	}
	live(t, tr, map[tracer.SessionID]int64{around: 4})
	require.NoError(t, tr.End(around, tracer.CauseEnd, 0))
	w.gone()
	if s := settled(t, tr, around); s.Drifted {
		t.Error("its count had drifted")
	}
}

// What is nested in a dissolved session lives on: no member is condemned with it, and it
// still ends by its own terms.
func TestDissolveCondemnsNobody(t *testing.T) { onEachSide(t, testDissolveCondemnsNobody) }

func testDissolveCondemnsNobody(t *testing.T, tr *tracer.Tracer) {
	nestingAgents(t, tr)
	w := agent(t, agentName, "while read go; do sleep 60 & echo $!; done")
	w.goOn()
	a := opened(t, tr, w.pid())
	w.goOn()
	nested, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: parse(t, w.line())}})
	require.NoError(t, err)
	b, err := tr.Session(nested)
	if err != nil || b.Parent != a.ID {
		t.Fatalf("%+v, %v", b, err)
	}
	if n, err := tr.Dissolve(a.ID); n != 1 || err != nil {
		t.Errorf("let go %d: %v", n, err)
	}
	sentence(t, tr)
	w.goOn() // a fork and an exec, which pass the hooks that kill
	later := parse(t, w.line())
	for _, pid := range []uint32{b.Root.PID, w.pid(), later} {
		if !running(t, tr, pid) {
			t.Errorf("pid %d is dead", pid)
		}
	}
	inSession(t, tr, b.Root.PID, nested)
	_, err = tr.Lookup(later)
	require.ErrorIs(t, err, tracer.ErrNotFound, "born outside")
	require.NoError(t, tr.End(nested, tracer.CauseEnd, 0))
	settled(t, tr, nested)
	for _, id := range []tracer.SessionID{nested, a.ID} {
		// A dead process of it may be reaped at this moment.
		until(t, "its record is released", func() bool {
			err := tr.Release(id)
			if err != nil && !errors.Is(err, tracer.ErrBusy) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	unix.Kill(int(later), unix.SIGKILL)
}

// The zombies of a nested session count in the session around it until their parent waits,
// and no longer, although the nested session's record is gone by then.
func TestReleaseHandsOverDead(t *testing.T) { onEachSide(t, testReleaseHandsOverDead) }

func testReleaseHandsOverDead(t *testing.T, tr *tracer.Tracer) {
	w := program(t, "forks", "2")
	outermost := create(t, tr, w, tracer.SessionSpec{Name: "outermost"})
	w.goOn()
	w.until("ready")
	var nested []tracer.SessionID
	for _, p := range members(t, tr, outermost) {
		if p.PID == w.pid() {
			continue
		}
		id, err := tr.Create(tracer.SessionSpec{Root: p.Identity})
		require.NoError(t, err)
		nested = append(nested, id)
	}
	for i, id := range nested {
		require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
		settled(t, tr, id)
		until(t, "its record is released", func() bool { return tr.Release(id) == nil })
		if s, err := tr.Session(outermost); err != nil || s.Unreaped != int64(i+1) {
			t.Errorf("around it %d are not reaped, want %d (%v)", s.Unreaped, i+1, err)
		}
	}
	w.tell("wait")
	w.until("wait 0")
	until(t, "those that were waited for do not count", func() bool {
		s, err := tr.Settle(outermost)
		return err == nil && s.Unreaped == 0 && s.Live == 1
	})
	w.in.Close()
	w.gone()
	settled(t, tr, outermost)
}

// A process that was released becomes an agent itself, and is found by its exec, or when
// its parent is adopted.
func TestFoundAfterDissolve(t *testing.T) { onEachSide(t, testFoundAfterDissolve) }

func testFoundAfterDissolve(t *testing.T, tr *tracer.Tracer) {
	nestingAgents(t, tr)
	path := shellNamed(t, agentName)
	for _, inside := range []bool{false, true} {
		w := start(t, "exec 3<&0; "+path+` -c 'echo $$; read go; exec `+path+` -c "echo up; read go; sleep 60"' <&3 & wait`)
		var around tracer.SessionID
		if inside {
			around = create(t, tr, w, tracer.SessionSpec{})
		}
		w.goOn()
		pid := parse(t, w.line())
		first := opened(t, tr, pid)
		_, err := tr.Dissolve(first.ID)
		require.NoError(t, err)
		require.NoError(t, tr.Release(first.ID))
		w.goOn()
		require.Equal(t, w.line(), "up")
		second := opened(t, tr, pid)
		if second.ID == first.ID || second.Parent != around {
			t.Errorf("inside %v: %+v", inside, second)
		}
		_, err = tr.Dissolve(second.ID)
		require.NoError(t, err)
		if !inside {
			around = create(t, tr, w, tracer.SessionSpec{Adopted: true})
			if n, err := tr.Adopt(around, 0); n != 1 || err != nil {
				t.Errorf("adopted %d: %v", n, err)
			}
		}
		inSession(t, tr, pid, around)
		endAll(t, tr, around, w)
	}
}

// Members of a session without a record are found, counted, and moved to their creator's
// session, or to none.
func TestRepairMembersOfNobody(t *testing.T) { onEachSide(t, testRepairMembersOfNobody) }

func testRepairMembersOfNobody(t *testing.T, tr *tracer.Tracer) {
	w, around := startIn(t, tr, "sleep 60 & echo $!; wait")
	w.goOn()
	child := parse(t, w.line())
	nested, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: child}})
	require.NoError(t, err)
	alone, other := startIn(t, tr, "sleep 60")
	for _, id := range []tracer.SessionID{nested, other} {
		require.NoError(t, tr.LoseRecord(id))
	}
	_, _, err = tr.Reconcile()
	require.NoError(t, err)
	inSession(t, tr, child, around)
	inSession(t, tr, alone.pid(), 0)
	if counters, err := tr.Counters(); err != nil || counters["no_session"] != 2 {
		t.Errorf("counted %d (%v)", counters["no_session"], err)
	}
	tr.End(around, tracer.CauseEnd, 0)
	w.gone()
}

// A process that was born while no session had its parent does not join one that began later, although
// the kernel remembers the parent.
func TestReconcileAfterRelease(t *testing.T) { onEachSide(t, testReconcileAfterRelease) }

func testReconcileAfterRelease(t *testing.T, tr *tracer.Tracer) {
	w, first := startIn(t, tr, "echo up; read go; sleep 60 >&- & echo $!; read never")
	w.goOn()
	w.until("up")
	_, err := tr.Dissolve(first)
	require.NoError(t, err)
	w.goOn()
	stranger := parse(t, w.line())
	t.Cleanup(func() { unix.Kill(int(stranger), unix.SIGKILL) })
	second := create(t, tr, w, tracer.SessionSpec{})
	_, _, err = tr.Reconcile()
	require.NoError(t, err)
	if e, err := tr.Lookup(stranger); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("it is in session %v (%v)", e.Session, err)
	}
	endAll(t, tr, second, w)
}

// A member whose entry was removed from the map is missing in every count: the session reports that.
func TestDrifted(t *testing.T) { onEachSide(t, testDrifted) }

func testDrifted(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, "sleep 60 & echo $!; read go")
	w.goOn()
	lost := parse(t, w.line())
	t.Cleanup(func() { unix.Kill(int(lost), unix.SIGKILL) })
	if s, err := tr.Session(id); err != nil || s.Drifted || s.Live != 2 {
		t.Errorf("before: %+v, %v", s, err)
	}
	require.NoError(t, tr.LoseEntry(lost))
	tr.End(id, tracer.CauseEnd, 0)
	if s := settled(t, tr, id); !s.Drifted {
		t.Errorf("after: %+v", s)
	}
}

// A look that meets a process while a hook counts its death takes nobody for lost. The
// hook has the entry, and the count has the member still. Old kernels have no such moment.
func TestSettleWhileADeathIsCounted(t *testing.T) {
	if !tracertest.AtLeast(t, 6, 7) {
		t.Skip("below 6.7 the entry stays whole until its death is counted")
	}
	tr := tracertest.New(t, tracer.Options{})
	w, id := startIn(t, tr, "read go")
	giveBack, err := tr.SeizeEntry(w.pid())
	require.NoError(t, err)
	if s, err := tr.Settle(id); err != nil || s.State != tracer.StateActive || s.Live != 1 || s.Drifted {
		t.Errorf("%+v, %v", s, err)
	}
	require.NoError(t, giveBack())
	if s := endAll(t, tr, id, w); s.Drifted {
		t.Errorf("in the end: %+v", s)
	}
}
