//go:build linux

package tracer_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// workers is how many processes of a tally fork all the time.
const workers = 5

// tally is a session whose members fork all the time, and count that they run.
type tally struct {
	*workload
	t    *testing.T
	tr   *tracer.Tracer
	id   tracer.SessionID
	file string
	pids [workers]uint32
}

func newTally(t *testing.T, tr *tracer.Tracer, spec tracer.SessionSpec) *tally {
	t.Helper()
	x := &tally{t: t, tr: tr, file: filepath.Join(t.TempDir(), "tally")}
	require.NoError(t, os.WriteFile(x.file, make([]byte, 8*workers), 0o600))
	x.workload = program(t, "tally", x.file, fmt.Sprint(workers))
	x.id = create(t, tr, x.workload, spec)
	x.goOn()
	for range workers {
		var i int
		var pid uint32
		_, err := fmt.Sscanf(x.line(), "worker %d %d", &i, &pid)
		require.NoError(t, err)
		x.pids[i] = pid
	}
	return x
}

// numbers are how far each worker has counted.
func (x *tally) numbers() (all [workers]uint64) {
	x.t.Helper()
	b := require.ReadFile(x.t, x.file)
	for i := range all {
		all[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return all
}

// stopped reports whether all members are stopped that live, and which these are.
func (x *tally) stopped() (live []tracer.Identity, all bool) {
	x.t.Helper()
	all = true
	for _, p := range members(x.t, x.tr, x.id) {
		if !p.Dead {
			live = append(live, p.Identity)
			all = all && p.Stopped
		}
	}
	return live, all
}

// pause pauses the session, waits until all its members are stopped, and fails the test if one
// runs after that.
func (x *tally) pause() {
	x.t.Helper()
	require.NoError(x.t, x.tr.Pause(x.id))
	var before []tracer.Identity
	until(x.t, "all members are stopped", func() (all bool) { before, all = x.stopped(); return all })
	counted, forks := x.numbers(), x.info().Forks
	after, all := x.stopped()
	if !all || !slices.Equal(before, after) || x.numbers() != counted || x.info().Forks != forks {
		x.t.Fatalf("a member runs: all stopped: %v, %v, then %v; %v, then %v; %d forks, then %d",
			all, before, after, counted, x.numbers(), forks, x.info().Forks)
	}
	if len(after) < workers+1 {
		x.t.Fatalf("members were lost: %v", after)
	}
}

// resume resumes the session, and waits until each worker has run.
func (x *tally) resume() {
	x.t.Helper()
	before := x.numbers()
	require.NoError(x.t, x.tr.Resume(x.id))
	x.runs(before)
}

func (x *tally) runs(before [workers]uint64) {
	x.t.Helper()
	until(x.t, "each worker runs", func() bool {
		for i, n := range x.numbers() {
			if n < before[i]+2 {
				return false
			}
		}
		return true
	})
}

func (x *tally) info() tracer.SessionInfo {
	x.t.Helper()
	s, err := x.tr.Session(x.id)
	require.NoError(x.t, err)
	return s
}

func TestPause(t *testing.T) { onEachSide(t, testPause) }

func testPause(t *testing.T, tr *tracer.Tracer) {
	for name, test := range map[string]func(*testing.T, *tracer.Tracer){
		"rounds": testPauseRounds, "ends": testPauseEnds, "lifetime": testPauseLifetime, "inside": testPauseInside, "soon": testPauseSoon,
	} {
		t.Run(name, func(t *testing.T) { test(t, tr) })
	}
}

// testPauseRounds pauses and resumes members that fork all the time: nobody runs in a pause, all run after it,
// and none is lost. LNGTEST_ROUNDS=200 is the measurement.
func testPauseRounds(t *testing.T, tr *tracer.Tracer) {
	x := newTally(t, tr, tracer.SessionSpec{})
	rounds := tracertest.FromEnv(t, "LNGTEST_ROUNDS", 5)
	var longest time.Duration
	for range rounds {
		began := time.Now()
		x.pause()
		longest = max(longest, time.Since(began))
		x.resume()
	}
	live, _ := x.stopped()
	for _, pid := range append(x.pids[:], x.pid()) {
		if !slices.ContainsFunc(live, func(p tracer.Identity) bool { return p.PID == pid }) {
			t.Errorf("%d was lost", pid)
		}
	}
	t.Logf("figure: %d rounds, %d forks, the longest pause took %v with its proof", rounds, x.info().Forks, longest)
	endAll(t, tr, x.id, x.workload)
	settledBy(t, tr, x.id, tracer.CauseEnd)
}

// testPauseEnds: a paused session ends at once, with a grace or without, and so does a session inside one.
func testPauseEnds(t *testing.T, tr *tracer.Tracer) {
	ends := func(pause, end func(*tally) tracer.SessionID) {
		t.Helper()
		x := newTally(t, tr, tracer.SessionSpec{Grace: time.Hour})
		require.NoError(t, tr.Pause(pause(x)))
		require.NoError(t, tr.End(end(x), tracer.CauseEnd, time.Hour))
		x.gone()
		x.wait()
		settled(t, tr, x.id)
	}
	itself := func(x *tally) tracer.SessionID { return x.id }
	ends(itself, itself)

	around := start(t, "read on; wait")
	outer := create(t, tr, around, tracer.SessionSpec{})
	around.goOn()
	require.NoError(t, tr.Pause(outer))
	if _, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: around.pid()}}); err != nil {
		t.Error(err)
	}
	require.NoError(t, tr.End(outer, tracer.CauseEnd, time.Hour))
	if err := tr.Pause(outer); err == nil {
		t.Error("paused when its end had begun")
	}
	around.gone()
	around.wait()
	settled(t, tr, outer)
}

// testPauseLifetime: max_lifetime ends a paused session.
func testPauseLifetime(t *testing.T, tr *tracer.Tracer) {
	x := newTally(t, tr, tracer.SessionSpec{Grace: time.Hour})
	x.pause()
	require.NoError(t, tr.SetTerms(x.id, tracer.SessionSpec{Grace: time.Hour, MaxLifetime: time.Millisecond}))
	until(t, "it is over", func() bool { sentence(t, tr); return x.info().Live == 0 })
	settledBy(t, tr, x.id, tracer.CauseMaxLifetime)
}

// testPauseInside: who else stops or continues members.
func testPauseInside(t *testing.T, tr *tracer.Tracer) {
	x := newTally(t, tr, tracer.SessionSpec{})
	control := x.pids[0]
	require.NoError(t, unix.Kill(int(control), unix.SIGSTOP)) // as job control does
	is := func(pid uint32, stopped bool) func() bool {
		return func() bool {
			for _, p := range members(t, tr, x.id) {
				if p.PID == pid {
					return p.Stopped == stopped
				}
			}
			return false
		}
	}
	until(t, "it is stopped", is(control, true))
	x.pause()
	require.NoError(t, tr.Pause(x.id)) // again: nothing changes

	// Anybody may send SIGCONT: the next pass stops the member again.
	require.NoError(t, unix.Kill(int(x.pids[1]), unix.SIGCONT))
	until(t, "it is stopped again", func() bool { sentence(t, tr); return is(x.pids[1], true)() })

	// A session inside that is paused, too, stays so.
	inner, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: x.pids[2]}})
	require.NoError(t, err)
	require.NoError(t, tr.Pause(inner))
	if _, err := tr.Dissolve(inner); err == nil {
		t.Error("a paused session was dissolved")
	}
	before := x.numbers()
	require.NoError(t, tr.Resume(x.id))
	until(t, "a worker runs", func() bool { return x.numbers()[4] > before[4]+1 })
	if now := x.numbers(); now[0] > before[0]+1 || now[2] > before[2]+1 { // a child that was born before runs
		t.Errorf("a worker runs that job control, or the session inside, has stopped: %v, then %v", before, now)
	}
	require.NoError(t, tr.Resume(inner))
	until(t, "the inner one runs", func() bool { return x.numbers()[2] > before[2]+1 })
	require.NoError(t, unix.Kill(int(control), unix.SIGCONT))
	x.runs(x.numbers())
	endAll(t, tr, x.id, x.workload)
	for _, id := range []tracer.SessionID{inner, x.id} {
		settled(t, tr, id)
		require.NoError(t, tr.Release(id))
	}
}

// testPauseSoon: SIGCONT that takes SIGSTOP away before that has stopped a member is seen, and undone by hooks from level 3 on.
func testPauseSoon(t *testing.T, tr *tracer.Tracer) {
	v := &victim{workload: program(t, "vforkexec", "window"), t: t, tr: tr, events: collect(t, tr)}
	v.id = create(t, tr, v.workload, tracer.SessionSpec{})
	v.goOn()
	v.until("ready")
	require.NoError(t, tr.Pause(v.id))
	v.signal(unix.SIGCONT) // it is in vfork, and stops when its child is gone
	v.next(tracer.EventContinue)
	until(t, "it is to stop again", func() bool {
		require.NoError(t, exec.Command("/bin/true").Run())
		return tr.Features().Level < 3 || slices.ContainsFunc(members(t, tr, v.id), func(p tracer.Process) bool { return p.PID == v.pid() && p.Stops })
	})
	endAll(t, tr, v.id, v.workload)
}

// TestPauseAgain: a member that one pass could not stop is stopped by the next.
func TestPauseAgain(t *testing.T) {
	defer tracer.LoadFaults()()
	defer tracer.SentenceOnlyIn("")()
	tr := tracertest.New(t, tracer.Options{})
	tracertest.NeedsLevel(t, 3, tr.Features().Level)
	w, id := startIn(t, tr, "sleep 60 & echo up; wait")
	w.goOn()
	w.until("up")
	require.NoError(t, tr.FailCalls(0, 1))
	require.NoError(t, tr.Pause(id))
	for _, p := range members(t, tr, id) {
		if !p.Stops {
			t.Errorf("%v runs", p.Identity)
		}
	}
	endAll(t, tr, id, w)
}

// TestPauseRestart: a pause outlasts the tracer that made it.
func TestPauseRestart(t *testing.T) {
	dir := tracertest.Dir(t)
	first := tracertest.New(t, tracer.Options{Dir: dir})
	x := newTally(t, first, tracer.SessionSpec{})
	x.pause()
	x.tr = tracertest.New(t, tracer.Options{Dir: dir})
	if x.info().Paused == 0 {
		t.Error("it is not paused after a restart")
	}
	x.pause()
	x.resume()
	endAll(t, x.tr, x.id, x.workload)
}
