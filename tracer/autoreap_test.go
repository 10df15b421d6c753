//go:build linux

package tracer_test

import (
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// Children that the kernel reaps itself, since 7.1, are counted and ended as others are, also one whose creator has exited.
func TestAutoreap(t *testing.T) { onEachSide(t, testAutoreap) }

func testAutoreap(t *testing.T, tr *tracer.Tracer) {
	w, id := programIn(t, tr, "autoreap")
	w.goOn()
	if w.line() == "lacks" {
		endAll(t, tr, id, w)
		tracertest.Lacks(t, tracertest.AtLeast(t, 7, 1), "clone3 refuses CLONE_AUTOREAP")
	}
	var killed uint32
	_, err := fmt.Sscanf(w.until("killed"), "killed %d", &killed)
	require.NoError(t, err)
	w.until("ready")
	const forks = 5
	counts := func(live int64) func() bool {
		return func() bool {
			s, err := tr.Settle(id)
			require.NoError(t, err)
			return s.Live == live && s.Dying == 0 && s.Unreaped == 0 && s.Forks == forks
		}
	}
	until(t, "three live, and of the others nothing is left", counts(3))
	if all := members(t, tr, id); len(all) != 3 {
		t.Errorf("members %+v", all)
	}
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	nobodyLives(t, tr, id, 5)
	w.gone()
	w.wait()
	settledBy(t, tr, id, tracer.CauseEnd)
	until(t, "nothing is left", counts(0))
	exits := map[tracer.Identity]int{}
	for _, ev := range flushed(t, tr) {
		if ev.Type != tracer.EventExit {
			continue
		}
		exits[ev.Process]++
		if s := ev.Signal; ev.Process.PID == killed && (s == nil || s.Sender != tracer.ByKernel || s.Number != uint8(unix.SIGKILL)) {
			t.Errorf("the close of its pidfd: %+v", s)
		}
	}
	for p, n := range exits {
		if n != 1 || len(exits) != forks+1 {
			t.Errorf("%v exits %d times, in %v", p, n, exits)
		}
	}
	require.NoError(t, tr.Release(id))
	none(t, tr, "enter_failed", "stale_entries", "reconciled", "live_drift", "delete_failed", "events_malformed")
}
