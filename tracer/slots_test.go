//go:build linux

package tracer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// After a take-over every slot without a session is queued once, in order.
func TestFreeSlots(t *testing.T) {
	const sessions = 16384 // MAX_SESSIONS
	everySide(t, func(t *testing.T, o tracer.Options) {
		o.Dir = tracertest.Dir(t)
		first := tracertest.New(t, o)
		w := start(t, "wait")
		if id := create(t, first, w, tracer.SessionSpec{}); uint32(id) != 0 {
			t.Fatalf("the first session is %v, not in the first slot", id)
		}
		second := tracertest.New(t, other(o))
		require.Equal(t, second.Taken(0), 1)
		free, err := second.TakeFreeSlots()
		require.NoError(t, err)
		for i, slot := range free {
			if slot != uint32(i)+1 {
				t.Fatalf("free slot %d is %d", i, slot)
			}
		}
		require.Equal(t, len(free), sessions-1)
	})
}

// The last slots are root's: an exec of another user's agent takes none of them. What is
// taken is counted as sessions come and go.
func TestSlotsForRoot(t *testing.T) { onEachSide(t, testSlotsForRoot) }

func testSlotsForRoot(t *testing.T, tr *tracer.Tracer) {
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName}}))
	shell := shellNamed(t, agentName)
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(shell)), 0o755))
	agent := func(uid uint32, opens bool) {
		t.Helper()
		w := startAs(t, uid, "exec "+shell+" -c 'echo; read never'")
		w.goOn()
		w.line()
		e, err := tr.Lookup(w.pid())
		if opened := err == nil && e.Session != 0; opened != opens {
			t.Errorf("uid %d: a session was opened: %v, want %v (%v)", uid, opened, opens, err)
		}
		if !opens {
			return
		}
		require.NoError(t, tr.End(e.Session, tracer.CauseEnd, 0))
		w.wait()
		settled(t, tr, e.Session)
		if err := tr.Release(e.Session); err != nil {
			t.Error(err)
		}
	}
	const sessions, forRoot = 16384, 512 // MAX_SESSIONS, ROOT_SLOTS
	agent(1000, true)
	tr.Taken(sessions - forRoot - 1)
	agent(1000, true)
	tr.Taken(1)
	agent(1000, false)
	agent(0, true)
	require.Equal(t, counter(t, tr, "agent_refused"), 1)
	if _, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: 1, Start: 1}}); err == nil {
		t.Error("a session of another process")
	}
	require.Equal(t, tr.Taken(0), sessions-forRoot)
}
