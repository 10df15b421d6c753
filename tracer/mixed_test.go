//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// All ways to escape at the same time, next to 64 processes that fork and exit all the
// time: when the end is over no process is alive, and none has forked since.
func TestEverythingAtOnce(t *testing.T) { everySide(t, testEverythingAtOnce) }

func testEverythingAtOnce(t *testing.T, o tracer.Options) {
	script, ready := "", 0
	for _, p := range []string{
		"stopped", "ptraced", "vforkexec window stop", "pidns", "zombieleader", "threadfork leaderless", "cloneparent 3",
		"daemonise clear", "threadexec 64", "ignoreterm", "respawnpair", "bomb 50",
	} {
		script += "./lngtest-" + p + " & "
		ready++
	}
	// The storm comes last: on a slow host the kernel frees the memory of its dead more
	// slowly than they die, so it must not run while the others get ready.
	script += "read go; ./lngtest-hop 64 " + lifetime + " 1000 & "
	tr := tracertest.New(t, o)
	rounds := tracertest.FromEnv(t, "LNGTEST_ROUNDS", 3)
	var forks uint64
	for round := range rounds {
		w, root := reaped(t, script+"wait")
		id, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: root}})
		require.NoError(t, err)
		w.goOn()
		for range ready {
			w.until("ready")
		}
		w.goOn()
		w.until("ready")
		require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
		nobodyLives(t, tr, id, 3)
		ended, err := tr.Session(id)
		require.NoError(t, err)
		w.gone()
		w.wait()
		if s := settled(t, tr, id); s.Forks != ended.Forks {
			t.Errorf("round %d: %d forks when nobody lived, %d later", round+1, ended.Forks, s.Forks)
		}
		forks += ended.Forks
	}
	none(t, tr, "live_drift", "enter_failed", "delete_failed", "reconciled")
	t.Logf("figure: %d mixed sessions ended, %d forks", rounds, forks)
}
