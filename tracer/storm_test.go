//go:build linux

package tracer_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// Storms of forks, one after the other: after each one the session has counted exactly
// as many births as there were, and as many deaths, by hooks alone. Where the kernel
// skips programs, the second writers have seen what they missed.
func TestCountsDoNotDrift(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{})
	rounds := tracertest.FromEnv(t, "LNGTEST_ROUNDS", 3)
	var forks int64
	for round := range rounds {
		w, id := programIn(t, tr, "vforkstorm", "max", "1", "8")
		w.goOn()
		storm := strings.Fields(w.until("storm"))
		made, err := strconv.ParseInt(storm[1], 10, 64)
		if err != nil || made == 0 {
			t.Fatalf("the storm says %v", storm)
		}
		var s tracer.SessionInfo
		// Below 6.16 the parent of a vfork continues before the exit hook.
		until(t, fmt.Sprintf("round %d: only the root lives", round+1), func() bool {
			s, err = tr.Session(id)
			require.NoError(t, err)
			return s.Live <= 1
		})
		if s.Live != 1 || int64(s.Forks) != made {
			t.Errorf("round %d: live %d, want 1; %d births counted of %d", round+1, s.Live, s.Forks, made)
		}
		forks += made
		endAll(t, tr, id, w)
	}
	none(t, tr, "live_drift", "enter_failed", "delete_failed", "reconciled")
	misses, err := tr.RecursionMisses()
	require.NoError(t, err)
	t.Logf("figure: %d storms, %d forks, every one counted; programs that the kernel skipped: %v", rounds, forks, misses)
}

// A session is not closed although a walk in the order of PIDs met none of its members, because
// a child was born behind it. Only the programs for old kernels settle by such a walk.
func TestSettleMeetsNobody(t *testing.T) {
	programs, err := filepath.Abs("../bin/testdata")
	require.NoError(t, err)
	lifetime := strconv.Itoa(int((10 * patience).Seconds())) // all walks take longer than usual on a busy machine
	t.Setenv("LNGTEST_SECONDS", lifetime)
	tr := tracertest.New(t, tracer.Options{Baseline: true})
	// The PIDs of these lie between the halves of the seesaw: a walk takes its time there.
	between, idle := startIn(t, tr, "echo 8000 >/proc/sys/kernel/ns_last_pid; exec "+programs+"/lngtest-bomb 1000")
	between.goOn()
	between.until("ready")
	w, root := reaped(t, "exec ./lngtest-seesaw "+lifetime)
	id, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: root}, KeepOnRootExit: true})
	require.NoError(t, err)
	w.goOn()
	w.until("ready")
	missed := 0
	for walks := 0; walks < 1000 && missed < 20; walks++ {
		s, err := tr.Settle(id)
		if err != nil || s.State != tracer.StateActive || s.Live < 1 {
			t.Fatalf("after %d walks that met nobody: %+v, %v", missed, s, err)
		}
		if !slices.ContainsFunc(members(t, tr, id), func(p tracer.Process) bool { return !p.Dead }) {
			missed++
		}
	}
	t.Logf("figure: %d walks met nobody", missed)
	if missed == 0 && runtime.NumCPU() > 1 {
		t.Error("no walk met nobody: this shows nothing")
	}
	for _, id := range []tracer.SessionID{id, idle} {
		require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
		nobodyLives(t, tr, id, 3)
	}
	w.gone()
	w.wait()
	settled(t, tr, id)
	none(t, tr, "live_drift")
}

// A session of any size loses and leaves no member.
func TestManyMembers(t *testing.T) {
	const each = 200 // processes that one bomb makes
	want := tracertest.FromEnv(t, "LNGTEST_MEMBERS", 2*each)
	bombs := (want + each - 1) / each
	t.Setenv("LNGTEST_SECONDS", strconv.Itoa(int((10 * patience).Seconds()))) // the first live until the last is made
	tr := tracertest.New(t, tracer.Options{})
	bomb, err := filepath.Abs("../bin/testdata/lngtest-bomb")
	require.NoError(t, err)
	w, id := startIn(t, tr, fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s %d & i=$((i+1)); done; wait", bombs, bomb, each))
	w.goOn()
	for range bombs {
		w.until("ready")
	}
	s, err := tr.Session(id)
	require.NoError(t, err)
	if all := int64(bombs*(each+2) + 1); s.Live != all || int64(len(members(t, tr, id))) != all {
		t.Errorf("%d live, %d in the snapshot, there are %d", s.Live, len(members(t, tr, id)), all)
	}
	began := time.Now()
	endAll(t, tr, id, w)
	t.Logf("figure: %d members, every one counted and ended", s.Live)
	t.Logf("ended in %v", time.Since(began).Round(time.Millisecond))
}
