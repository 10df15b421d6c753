//go:build linux

package tracer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A process inherits the call for which its creator works at that moment, and keeps it, by
// exec, by double fork, and whatever call its creator has later.
func TestCall(t *testing.T) { onEachSide(t, testCall) }

func testCall(t *testing.T, tr *tracer.Tracer) {
	w, _ := member(t, tr, obeys, tracer.SessionSpec{})
	agent := identify(t, tr, w.pid())
	started := func(how string) uint32 { // reads the PID that is printed
		w.tell(how)
		pid := parse(t, strings.Fields(w.until("pid "))[1])
		w.until("= ")
		return pid
	}
	works := func(pid, call uint32) {
		t.Helper()
		if e, err := tr.Lookup(pid); err != nil || e.Call != call {
			t.Errorf("%d works for call %d (%v), want %d", pid, e.Call, err, call)
		}
	}
	const child, grandchild = `sleep 60 >/dev/null & echo pid $!`,
		`(read go <%s; (setsid sleep 60 >/dev/null & echo pid $!) & sleep 60 >/dev/null) & echo pid $!`
	none := started(child)
	require.NoError(t, tr.SetCall(agent, 7, true))
	seven, hold := started(child), fifo(t)
	parent := started(fmt.Sprintf(grandchild, hold))
	require.NoError(t, tr.SetCall(agent, 8, true))
	eight := started(child)
	w.tell("echo >" + hold)
	late := parse(t, strings.Fields(w.until("pid "))[1])
	require.NoError(t, tr.SetCall(agent, 0, true))
	for pid, call := range map[uint32]uint32{
		agent.PID: 0, none: 0, seven: 7, parent: 7, late: 7, eight: 8, started(child): 0,
	} {
		works(pid, call)
	}
	if e, err := tr.Lookup(agent.PID); err != nil || e.Flags&tracer.FlagSpared == 0 {
		t.Errorf("%+v, %v", e, err)
	}
	gone := agent
	gone.Start++
	require.ErrorIs(t, tr.SetCall(gone, 9, true), tracer.ErrNotFound, "another process by that PID")
	works(agent.PID, 0)
}

// A stranger works for the call of the process that it is entered for, unless that is an agent,
// which may have made it for another call.
func TestCallOfStranger(t *testing.T) { onEachSide(t, testCallOfStranger) }

func testCallOfStranger(t *testing.T, tr *tracer.Tracer) {
	w, id := member(t, tr, obeys, tracer.SessionSpec{})
	by := identify(t, tr, w.pid())
	for _, agent := range []bool{false, true} {
		require.NoError(t, tr.SetCall(by, 7, agent))
		who := identify(t, tr, outsider(t, ":").pid())
		for _, enter := range []func() error{
			func() error { return tr.Enter(0, id, who, by, tracer.SourceEnv) },
			func() error { return tr.Enter(id, id, who, tracer.Identity{}, tracer.SourceUnit) }, // on better evidence
		} {
			require.NoError(t, enter())
			e, err := tr.Lookup(who.PID)
			require.NoError(t, err)
			require.Equal(t, e.Call, map[bool]uint32{false: 7, true: 0}[agent])
		}
	}
}
