//go:build linux

package tracer_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A process that is handed over outlives its session, with its descendants and what
// they fork, and ends when its time is over.
func TestKeep(t *testing.T) { onEachSide(t, testKeep) }

func testKeep(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, `sh -c 'sleep 60 & echo $!; wait' & echo $!; sleep 62 & echo $!; wait`)
	w.goOn()
	for range 3 {
		w.line()
	}
	var kept, child tracer.Identity
	for _, p := range members(t, tr, id) {
		switch {
		case p.PID == w.pid():
			_, err := tr.Create(tracer.SessionSpec{Root: p.Identity, KeptFrom: id})
			require.ErrorIs(t, err, tracer.ErrRoot, "kept the root")
			require.ErrorIs(t, tr.Move(p.Identity, id, id), tracer.ErrRoot, "moved the root")
		case p.Creator.PID != w.pid():
			child, kept = p.Identity, p.Creator
		}
	}
	k, err := tr.Create(tracer.SessionSpec{Root: kept, KeptFrom: id, MaxLifetime: time.Hour, Name: "kept"})
	require.NoError(t, err)
	if n, err := tr.Follow(id, k); err != nil || n != 1 {
		t.Errorf("followed %d: %v", n, err)
	}
	require.ErrorIs(t, tr.Move(child, id, k), tracer.ErrNotFound, "moved twice")
	s, err := tr.Session(k)
	if err != nil || !s.Kept || s.Live != 2 || s.Parent != 0 || s.Root != kept {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := tr.Session(id); err != nil || s.Live != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	tr.End(id, tracer.CauseEnd, 0)
	w.wait()
	settled(t, tr, id)
	for _, p := range members(t, tr, k) {
		if p.Dead || p.Identity != kept && p.Identity != child {
			t.Errorf("%+v", p)
		}
	}
	if s, err := tr.Session(k); err != nil || s.State != tracer.StateActive || s.Live != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	tr.End(k, tracer.CauseEnd, 0)
	w.gone()
	settled(t, tr, k)
}

func TestKeepExpires(t *testing.T) { onEachSide(t, testKeepExpires) }

func testKeepExpires(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, "sleep 60 & echo $!; wait")
	w.goOn()
	child := identify(t, tr, parse(t, w.line()))
	k, err := tr.Create(tracer.SessionSpec{Root: child, KeptFrom: id, MaxLifetime: 50 * time.Millisecond})
	require.NoError(t, err)
	var s tracer.SessionInfo
	until(t, "the kept session expires", func() bool {
		sentence(t, tr)
		s, err = tr.Settle(k)
		return err == nil && s.State == tracer.StateEmpty
	})
	require.Equal(t, s.Cause, tracer.CauseExpired)
	w.gone()
	w.wait()
	settled(t, tr, id)
}
