//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func create(t testing.TB, tr *tracer.Tracer, w *workload, s tracer.SessionSpec) tracer.SessionID {
	t.Helper()
	s.Root.PID = w.pid()
	id, err := tr.Create(s)
	require.NoError(t, err)
	return id
}

// startIn starts a shell as the root of a session.
func startIn(t testing.TB, tr *tracer.Tracer, script string) (*workload, tracer.SessionID) {
	t.Helper()
	w := start(t, script)
	return w, create(t, tr, w, tracer.SessionSpec{})
}

// programIn starts a test program as the root of a session.
func programIn(t testing.TB, tr *tracer.Tracer, args ...string) (*workload, tracer.SessionID) {
	t.Helper()
	w := program(t, args...)
	return w, create(t, tr, w, tracer.SessionSpec{})
}

// nobodyLives waits until the session has no live member. From the level on the kernel
// does this automatically; below it the test asks for passes.
func nobodyLives(t testing.TB, tr *tracer.Tracer, id tracer.SessionID, level int) {
	t.Helper()
	until(t, "nobody lives", func() bool {
		if tr.Features().Level < level {
			sentence(t, tr)
		}
		s, err := tr.Session(id)
		return err == nil && s.Live == 0
	})
}

func settled(t testing.TB, tr *tracer.Tracer, id tracer.SessionID) tracer.SessionInfo {
	t.Helper()
	var s tracer.SessionInfo
	until(t, "session is empty", func() bool {
		var err error
		s, err = tr.Settle(id)
		require.NoError(t, err)
		return s.State == tracer.StateEmpty
	})
	if s.Live != 0 || s.Dying != 0 {
		t.Errorf("empty with live %d, dying %d", s.Live, s.Dying)
	}
	return s
}

func settledBy(t testing.TB, tr *tracer.Tracer, id tracer.SessionID, cause tracer.Cause) {
	t.Helper()
	require.Equal(t, settled(t, tr, id).Cause, cause)
}

// endAll ends a session now. Every process of the workload must die of it.
func endAll(t testing.TB, tr *tracer.Tracer, id tracer.SessionID, w *workload) tracer.SessionInfo {
	t.Helper()
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	nobodyLives(t, tr, id, 3)
	w.gone()
	w.wait()
	return settled(t, tr, id)
}

func members(t *testing.T, tr *tracer.Tracer, id tracer.SessionID) []tracer.Process {
	t.Helper()
	var all []tracer.Process
	require.NoError(t, tr.Snapshot(id, func(p *tracer.Process) error { all = append(all, *p); return nil }))
	return all
}

func TestSessionLife(t *testing.T) { onEachSide(t, testSessionLife) }

func testSessionLife(t *testing.T, tr *tracer.Tracer) {
	w := start(t, `(sleep 60 & echo $!); read go; wait`)
	id := create(t, tr, w, tracer.SessionSpec{Name: "life", UID: 7, Grace: 3 * time.Second})
	sentence(t, tr) // nothing is due
	s, err := tr.Session(id)
	require.NoError(t, err)
	if s.Name != "life" || s.UID != 7 || s.State != tracer.StateActive || s.Live != 1 || s.Root.PID != w.pid() ||
		s.Grace != 3*time.Second {
		t.Errorf("new session is %+v", s)
	}
	w.goOn()
	var sleeper uint32
	fmt.Sscan(w.line(), &sleeper)
	e, err := tr.Lookup(sleeper)
	if err != nil || e.Session != id || e.Evidence != tracer.EvidenceFork {
		t.Fatalf("entry of the orphan: %+v, %v", e, err)
	}
	var p tracer.Process
	until(t, "the sleeper is an orphan", func() bool {
		all := members(t, tr, id)
		i := slices.IndexFunc(all, func(p tracer.Process) bool { return p.PID == sleeper })
		if i < 0 {
			t.Fatalf("snapshot has no %d: %+v", sleeper, all)
		}
		p = all[i]
		return p.Creator != p.Parent
	})
	if p.Session != id || p.Creator != e.Creator || p.Threads != 1 || p.NSPID != sleeper {
		t.Errorf("orphan in the snapshot: %#v", p)
	}
	until(t, "two members live", func() bool {
		s, err = tr.Session(id)
		return err == nil && s.Live == 2
	})
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	s = settled(t, tr, id)
	if s.Cause != tracer.CauseEnd || s.Forks != 2 || s.Peak < 2 {
		t.Errorf("ended as %+v", s)
	}
	require.NoError(t, tr.Release(id))
	_, err = tr.Session(id)
	require.ErrorIs(t, err, tracer.ErrNotFound, "released session")
}

func TestEvents(t *testing.T) { onEachSide(t, testEvents) }

func testEvents(t *testing.T, tr *tracer.Tracer) {
	events := collect(t, tr)
	w, id := startIn(t, tr, `/bin/true one "two three"; exit 7`)
	w.goOn()
	w.wait()
	settled(t, tr, id)

	var got []string
	for ev := range events {
		if ev.Session != id {
			continue
		}
		switch ev.Type {
		case tracer.EventBirth:
			got = append(got, "birth "+ev.Evidence.String()+" "+ev.Comm.String())
		case tracer.EventExec:
			got = append(got, fmt.Sprintf("exec %s %q", ev.Filename, ev.Argv))
		case tracer.EventExit:
			got = append(got, fmt.Sprintf("exit %d", ev.ExitStatus))
		case tracer.EventSession:
			got = append(got, "session "+ev.State.String()+" "+ev.Cause.String())
		}
		if ev.Type == tracer.EventSession && ev.State == tracer.StateEmpty {
			break
		}
	}
	want := []string{
		"birth root sh", "session active ", "birth fork sh",
		`exec /bin/true "/bin/true\x00one\x00two three\x00"`,
		"exit 0", "exit 1792", "session ended root_exit",
	}
	got = slices.DeleteFunc(got, func(s string) bool { return s == "session condemned root_exit" })
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The root's own exit ends the session inside the kernel, without a request.
func TestRootExitEndsMembers(t *testing.T) { onEachSide(t, testRootExitEndsMembers) }

func testRootExitEndsMembers(t *testing.T, tr *tracer.Tracer) {
	w := start(t, `setsid sleep 60 & setsid sleep 61 & echo; exit 3`)
	id := create(t, tr, w, tracer.SessionSpec{Grace: 0})
	w.goOn()
	nobodyLives(t, tr, id, 4)
	settledBy(t, tr, id, tracer.CauseRootExit)
}

func TestOwnerExitEndsMembers(t *testing.T) { onEachSide(t, testOwnerExitEndsMembers) }

func testOwnerExitEndsMembers(t *testing.T, tr *tracer.Tracer) {
	owner := start(t, "read never")
	w := start(t, `sleep 60 & echo; wait`)
	id := create(t, tr, w, tracer.SessionSpec{Owner: tracer.Identity{PID: owner.pid()}})
	w.goOn()
	w.line()
	sentence(t, tr)
	if s, err := tr.Session(id); err != nil || s.State != tracer.StateActive || s.Owner.Start == 0 {
		t.Fatalf("while the owner lives: %+v, %v", s, err)
	}
	owner.cmd.Process.Kill()
	nobodyLives(t, tr, id, 4)
	settledBy(t, tr, id, tracer.CauseOwnerExit)
}

// SIGTERM comes at once, SIGKILL at the first event after the deadline.
func TestGrace(t *testing.T) { onEachSide(t, testGrace) }

func testGrace(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, `trap "echo term" TERM; echo; while :; do read x <&- ; sleep 0.05; done`)
	w.goOn()
	w.line()
	require.NoError(t, tr.End(id, tracer.CauseEnd, time.Hour))
	require.Equal(t, w.line(), "term")
	require.NoError(t, tr.End(id, tracer.CauseEnd, 100*time.Millisecond)) // the message took its time
	// Its own forks are events enough where the fork hook may signal.
	nobodyLives(t, tr, id, 3)
	settled(t, tr, id)
}

// A process that a member starts on SIGTERM, to clean up, does not get SIGTERM itself:
// it has the rest of the grace.
func TestLastHelperGetsTheGrace(t *testing.T) { onEachSide(t, testLastHelperGetsTheGrace) }

func testLastHelperGetsTheGrace(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, "exec 3<>"+fifo(t)+"; helper() { (read never <&3) & echo $!; }; trap helper TERM; echo; while :; do read never <&3; done")
	w.goOn()
	w.line()
	require.NoError(t, tr.End(id, tracer.CauseEnd, time.Hour))
	helper := parse(t, w.line())
	for range 2 {
		sentence(t, tr)
	}
	if e, err := tr.Lookup(helper); err != nil || e.Session != id || e.Flags&tracer.FlagTermed != 0 {
		t.Errorf("the helper: %+v, %v", e, err)
	}
	if e, err := tr.Lookup(w.pid()); err != nil || e.Flags&tracer.FlagTermed == 0 {
		t.Errorf("the member that started it: %+v, %v", e, err)
	}
	endAll(t, tr, id, w)
}

// A repeated end can only shorten the deadline.
func TestGraceIsOnlyShortened(t *testing.T) { onEachSide(t, testGraceIsOnlyShortened) }

func testGraceIsOnlyShortened(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, `trap "" TERM; echo; read never`)
	w.goOn()
	w.line()
	end := func(grace time.Duration) uint64 {
		t.Helper()
		require.NoError(t, tr.End(id, tracer.CauseEnd, grace))
		s, err := tr.Session(id)
		if err != nil || s.State != tracer.StateEnding || s.Deadline == 0 {
			t.Fatalf("after a grace of %v: %+v, %v", grace, s, err)
		}
		return s.Deadline
	}
	first := end(2 * time.Hour)
	second := end(time.Hour)
	if second >= first {
		t.Errorf("one hour instead of two: deadline %d was %d", second, first)
	}
	if third := end(2 * time.Hour); third != second {
		t.Errorf("two hours instead of one: deadline %d was %d", third, second)
	}
	endAll(t, tr, id, w)
}

// The record of a session is kept until it is proven empty.
func TestReleaseRefuses(t *testing.T) { onEachSide(t, testReleaseRefuses) }

func testReleaseRefuses(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, `trap "" TERM; echo; read never`)
	w.goOn()
	w.line()
	for _, state := range []tracer.State{tracer.StateActive, tracer.StateEnding, tracer.StateCondemned} {
		switch state {
		case tracer.StateEnding:
			require.NoError(t, tr.End(id, tracer.CauseEnd, time.Hour))
		case tracer.StateCondemned:
			require.NoError(t, tr.MarkCondemned(id))
		}
		if err := tr.Release(id); !errors.Is(err, tracer.ErrBusy) {
			t.Errorf("released while it is %v: %v", state, err)
		}
		if s, err := tr.Session(id); err != nil || s.State != state || s.Live != 1 {
			t.Fatalf("%v: %+v, %v", state, s, err)
		}
	}
	endAll(t, tr, id, w)
	require.NoError(t, tr.Release(id))
	require.ErrorIs(t, tr.Release(id), tracer.ErrNotFound, "released twice")
}
