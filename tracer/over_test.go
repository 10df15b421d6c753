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

// A session that is over takes no process, and nobody is killed for having been offered.
func TestOverTakesNone(t *testing.T) { onEachSide(t, testOverTakesNone) }

func testOverTakesNone(t *testing.T, tr *tracer.Tracer) {
	w, outsider, other := start(t, "exit"), start(t, "/bin/true; exit"), start(t, "sleep 60 & echo $!; wait")
	id := create(t, tr, w, tracer.SessionSpec{KeepOnRootExit: true})
	from := create(t, tr, other, tracer.SessionSpec{})
	other.goOn()
	member := identify(t, tr, parse(t, other.line()))
	w.goOn()
	w.wait()
	settled(t, tr, id)
	refuses(t, tr, id, from, identify(t, tr, outsider.pid()), member)
	lives(t, tr, outsider)
	if now, err := tr.Identify(member.PID); err != nil || now != member {
		t.Errorf("%v was killed: %v", member, err)
	}
	require.NoError(t, tr.End(from, tracer.CauseEnd, 0))
	other.gone()
}

// The same with a session that is condemned and has members still: below level 3 they
// live until user space makes a pass.
func TestCondemnedTakesNone(t *testing.T) {
	for name, o := range map[string]tracer.Options{"best": {Level: 2}, "baseline": {Baseline: true}} {
		t.Run(name, func(t *testing.T) { testCondemnedTakesNone(t, o) })
	}
}

func testCondemnedTakesNone(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	// The first child is an outsider, the second one is kept.
	w, outsider := start(t, "sleep 60 & echo $!; read go; sleep 60 & echo $!; read never"), start(t, "/bin/true; exit")
	w.goOn()
	child := identify(t, tr, parse(t, w.line()))
	t.Cleanup(func() { unix.Kill(int(child.PID), unix.SIGKILL) })
	id := create(t, tr, w, tracer.SessionSpec{Adopted: true})
	w.goOn()
	member := identify(t, tr, parse(t, w.line()))
	kept, err := tr.Create(tracer.SessionSpec{Root: member, KeptFrom: id})
	require.NoError(t, err)
	require.NoError(t, tr.Condemn(id))
	refuses(t, tr, id, kept, identify(t, tr, outsider.pid()), member)
	if n, err := tr.Follow(kept, id); n != 0 || err != nil {
		t.Errorf("%d followed, %v", n, err)
	}
	if n, err := tr.Adopt(id, 0); n != 0 || err != nil {
		t.Errorf("%d adopted, %v", n, err)
	}
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	w.wait()
	settled(t, tr, id)
	for _, p := range []tracer.Identity{child, member} {
		if now, err := tr.Identify(p.PID); err != nil || now != p {
			t.Errorf("%v was killed: %v", p, err)
		}
	}
	lives(t, tr, outsider)
	require.NoError(t, tr.End(kept, tracer.CauseEnd, 0))
}

// refuses offers an outsider, and a member of from, to a session.
func refuses(t *testing.T, tr *tracer.Tracer, id, from tracer.SessionID, outsider, member tracer.Identity) {
	t.Helper()
	require.ErrorIs(t, tr.Enter(0, id, outsider, tracer.Identity{}, tracer.SourceEnv), tracer.ErrBusy, "enter")
	require.ErrorIs(t, tr.Enter(from, id, member, tracer.Identity{}, tracer.SourceEnv), tracer.ErrBusy, "raise")
	if e, err := tr.Lookup(member.PID); err != nil || e.Session != from {
		t.Errorf("raised: %+v, %v", e, err)
	}
	if err := tr.Move(member, from, id); !errors.Is(err, tracer.ErrBusy) && !errors.Is(err, tracer.ErrRoot) {
		t.Errorf("move: %v", err)
	}
}

// lives makes a pass, and sees that the workload can fork, exec and exit.
func lives(t *testing.T, tr *tracer.Tracer, w *workload) {
	t.Helper()
	sentence(t, tr)
	w.goOn()
	if status := w.wait(); !status.Exited() {
		t.Errorf("%d was killed: %v", w.pid(), status)
	}
}

// A verb that names an earlier process with the PID leaves the entry of the present one.
func TestEarlierProcessNamed(t *testing.T) { onEachSide(t, testEarlierProcessNamed) }

func testEarlierProcessNamed(t *testing.T, tr *tracer.Tracer) {
	w, other := start(t, "sleep 60 & echo $!; wait"), start(t, "read never")
	id, to := create(t, tr, w, tracer.SessionSpec{}), create(t, tr, other, tracer.SessionSpec{})
	w.goOn()
	member := identify(t, tr, parse(t, w.line()))
	earlier := tracer.Identity{PID: member.PID, Start: member.Start - 1}
	require.ErrorIs(t, tr.Move(earlier, id, to), tracer.ErrNotFound, "move")
	require.ErrorIs(t, tr.Unprotect(earlier), tracer.ErrNotFound, "unprotect")
	if e, err := tr.Lookup(member.PID); err != nil || e.Identity != member || e.Session != id {
		t.Errorf("%+v, %v", e, err)
	}
	for _, id := range []tracer.SessionID{id, to} {
		require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	}
	w.gone()
}

func identify(t testing.TB, tr *tracer.Tracer, pid uint32) tracer.Identity {
	t.Helper()
	id, err := tr.Identify(pid)
	require.NoError(t, err)
	return id
}
