//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// The terms of an agent's session are decided once it is known which program it is.
func TestSetTerms(t *testing.T) { onEachSide(t, testSetTerms) }

func testSetTerms(t *testing.T, tr *tracer.Tracer) {
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName, KeepOnRootExit: true}}))
	w := agent(t, agentName, "sleep 60 & echo $!; read go; exit")
	w.goOn()
	w.line()
	s := opened(t, tr, w.pid())
	w.goOn()
	w.wait()
	if s, err := tr.Session(s.ID); err != nil || s.State != tracer.StateActive || s.Live != 1 {
		t.Errorf("before: %+v, %v", s, err)
	}
	require.NoError(t, tr.SetTerms(s.ID, tracer.SessionSpec{Name: "known", Rule: 3, MaxRSS: 5, Grace: 0}))
	sentence(t, tr)
	w.gone()
	s = settled(t, tr, s.ID)
	if s.Name != "known" || s.Rule != 3 || s.MaxRSS != 5 || !s.Agent || s.Cause != tracer.CauseRootExit {
		t.Errorf("after: %+v", s)
	}
	require.ErrorIs(t, tr.SetTerms(s.ID, tracer.SessionSpec{}), tracer.ErrBusy, "set when it was over")
}

// A lookalike is released with all its children, and nothing is signalled.
func TestDissolve(t *testing.T) { onEachSide(t, testDissolve) }

func testDissolve(t *testing.T, tr *tracer.Tracer) {
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName}}))
	w := agent(t, agentName, "sleep 60 & echo $!; read go; sleep 61 & echo $!; wait")
	w.goOn()
	child := parse(t, w.line())
	s := opened(t, tr, w.pid())
	n, err := tr.Dissolve(s.ID)
	if err != nil || n != 2 {
		t.Errorf("let go %d: %v", n, err)
	}
	s, err = tr.Settle(s.ID)
	if err != nil || s.State != tracer.StateDissolved || s.Cause != tracer.CauseReleased || s.Live != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if n, err := tr.Dissolve(s.ID); n != 0 || err != nil {
		t.Errorf("dissolved twice: %d, %v", n, err)
	}
	require.NoError(t, tr.Release(s.ID))
	w.goOn()
	later := parse(t, w.line())
	_, err = tr.Lookup(later)
	require.ErrorIs(t, err, tracer.ErrNotFound, "born after")
	for _, pid := range []uint32{w.pid(), child} {
		e, err := tr.Lookup(pid)
		if err != nil || e.Session != 0 || e.Flags&tracer.FlagRoot != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		if err := unix.Kill(int(pid), 0); err != nil {
			t.Errorf("%d: %v", pid, err)
		}
	}
	for _, pid := range []uint32{child, later} {
		unix.Kill(int(pid), unix.SIGKILL)
	}
	w.gone()
}
