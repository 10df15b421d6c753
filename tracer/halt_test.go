//go:build linux

package tracer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// otherName is an agent's that is not exact.
var otherName = "o" + agentName[1:]

func haltAgents(t *testing.T, tr *tracer.Tracer) {
	t.Helper()
	require.NoError(t, tr.SetAgents([]tracer.Agent{
		{Comm: agentName, Exact: true, Nests: true, KeepOnRootExit: true}, {Comm: otherName, KeepOnRootExit: true},
	}))
}

// haltNow has a halt in force until the test ends.
func haltNow(t *testing.T, tr *tracer.Tracer, mode tracer.HaltMode) {
	t.Helper()
	require.NoError(t, tr.SetHalt(tracer.Halt{Mode: mode, Since: 7, UID: 1000, Reason: "case 7"}, nil))
}

// runningAs waits until an agent runs, and has executed something.
func runningAs(t *testing.T, name string) *workload {
	t.Helper()
	w := agent(t, name, "echo up; read go")
	w.goOn()
	w.until("up")
	return w
}

// refused waits until an agent that must not start is dead, of SIGKILL and before its first instruction.
func refused(t *testing.T, w *workload) {
	t.Helper()
	w.goOn()
	if out := w.rest(); len(out) > 0 {
		t.Errorf("it ran: %q", out)
	}
	if s := w.wait(); s.Signal() != unix.SIGKILL {
		t.Errorf("it died of %v", s)
	}
}

func refusals(t *testing.T, tr *tracer.Tracer) uint64 {
	t.Helper()
	all, err := tr.Counters()
	require.NoError(t, err)
	return all["agents_halted"]
}

// A halt kills nothing but agents that nothing but their name makes one.
func TestHaltSpares(t *testing.T) { onEachSide(t, testHaltSpares) }

func testHaltSpares(t *testing.T, tr *tracer.Tracer) {
	haltAgents(t, tr)
	earlier := runningAs(t, agentName) // what runs is ended by its session, not by the mode
	member, id := startIn(t, tr, "/bin/sh -c 'echo up; read go'")
	guarded := agent(t, agentName, "echo up; read go")
	require.NoError(t, tr.Protect(guarded.pid()))
	haltNow(t, tr, tracer.HaltAll)
	outsider := runningAs(t, "lngtest-nobody")
	candidate := runningAs(t, otherName)
	if s := opened(t, tr, candidate.pid()); !s.Agent || s.State != tracer.StateActive {
		t.Errorf("%+v", s)
	}
	for _, w := range []*workload{guarded, member} {
		w.goOn()
		w.until("up")
	}
	if s, err := tr.Session(id); err != nil || s.State != tracer.StateActive {
		t.Errorf("%+v, %v", s, err)
	}
	for _, w := range []*workload{earlier, member, guarded, outsider, candidate} {
		if err := unix.Kill(int(w.pid()), 0); err != nil {
			t.Errorf("%d: %v", w.pid(), err)
		}
	}
	require.Equal(t, refusals(t, tr), 0)
}

// While a halt is in force an agent dies at its exec, by all of its starters, and takes no session. After it agents live.
func TestHalt(t *testing.T) { onEachSide(t, testHalt) }

func testHalt(t *testing.T, tr *tracer.Tracer) {
	haltAgents(t, tr)
	haltNow(t, tr, tracer.HaltAll)
	require.Equal(t, tr.Halted(), (tracer.Halt{Mode: tracer.HaltAll, Since: 7, UID: 1000, Reason: "case 7"}))
	for range 3 {
		refused(t, agent(t, agentName, "echo up"))
	}
	if all, err := tr.Sessions(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	inside, id := startIn(t, tr, shellNamed(t, agentName)+" -c 'echo up' || echo $?; read go")
	inside.goOn()
	inside.until("137")
	root, of := startIn(t, tr, "exec "+shellNamed(t, agentName)+" -c 'echo up'")
	refused(t, root)
	settled(t, tr, of)
	if s, err := tr.Session(id); err != nil || s.Live != 1 || s.State != tracer.StateActive {
		t.Errorf("%+v, %v", s, err)
	}
	require.Equal(t, refusals(t, tr), 5)
	require.NoError(t, tr.SetHalt(tracer.Halt{}, nil))
	opened(t, tr, runningAs(t, agentName).pid())
	if err := tr.SetHalt(tracer.Halt{Reason: strings.Repeat("r", tracer.MaxReason+1)}, nil); err == nil {
		t.Error("a reason that does not fit was taken")
	}
}

// A drain refuses agents that are in no session. What runs continues, and starts agents.
func TestDrain(t *testing.T) { onEachSide(t, testDrain) }

func testDrain(t *testing.T, tr *tracer.Tracer) {
	haltAgents(t, tr)
	earlier := runningAs(t, agentName)
	inside, _ := startIn(t, tr, shellNamed(t, agentName)+" -c 'echo up; read go'; echo over")
	haltNow(t, tr, tracer.HaltDrain)
	refused(t, agent(t, agentName, "echo up"))
	inside.goOn()
	inside.until("up")
	if s := opened(t, tr, earlier.pid()); s.State != tracer.StateActive || s.Live != 1 {
		t.Errorf("%+v", s)
	}
	require.Equal(t, refusals(t, tr), 1)
}

// All sessions that a halt names end, with what is born meanwhile.
func TestHaltEnds(t *testing.T) { onEachSide(t, testHaltEnds) }

func testHaltEnds(t *testing.T, tr *tracer.Tracer) {
	ids, all := crowd(t, tr, 4)
	other, spared := startIn(t, tr, "sleep 60 & wait")
	other.goOn()
	require.NoError(t, tr.End(ids[0], tracer.CauseIdle, time.Hour)) // has begun
	require.NoError(t, tr.SetHalt(tracer.Halt{Mode: tracer.HaltAll, Since: 7}, append(slices.Clone(ids), 1<<32)))
	for i, w := range all {
		w.rest()
		w.wait()
		settled(t, tr, ids[i])
		if s, err := tr.Session(ids[i]); err != nil || (s.Cause == tracer.CauseHalt) == (i == 0) {
			t.Errorf("session %d: %+v, %v", i, s, err)
		}
	}
	if s, err := tr.Session(spared); err != nil || s.State != tracer.StateActive {
		t.Errorf("%+v, %v", s, err)
	}
	require.NoError(t, tr.SetHalt(tracer.Halt{Mode: tracer.HaltAll, Since: 7}, []tracer.SessionID{spared}))
	other.gone()
}

// crowd is sessions whose members ignore SIGTERM and fork all the time.
func crowd(t *testing.T, tr *tracer.Tracer, n int) (ids []tracer.SessionID, all []*workload) {
	t.Helper()
	for i := range n {
		w := start(t, "trap '' TERM; sleep 60 & (while :; do sleep 0.01; done) & wait")
		ids = append(ids, create(t, tr, w, tracer.SessionSpec{Name: fmt.Sprint("s", i), Grace: time.Hour}))
		w.goOn()
		all = append(all, w)
	}
	return ids, all
}

// A halt ends all of its sessions or none, wherever its caller is killed: until the mode is stored none,
// and then all, by the next hook on the host, or by the next pass.
func TestHaltAtOnce(t *testing.T) { onEachSide(t, testHaltAtOnce) }

func testHaltAtOnce(t *testing.T, tr *tracer.Tracer) {
	ids, all := crowd(t, tr, 4)
	halt := tracer.Halt{Mode: tracer.HaltAll, Since: 7}
	require.NoError(t, tr.MarkHalted(halt, ids))
	haltNow(t, tr, tracer.HaltDrain)
	_, err := tr.Sentence()
	require.NoError(t, err)
	for _, id := range ids {
		if s, err := tr.Session(id); err != nil || s.State != tracer.StateActive {
			t.Errorf("%+v, %v", s, err)
		}
	}
	require.NoError(t, tr.SetHalt(tracer.Halt{Mode: tracer.HaltAll, Since: 8}, nil)) // another one
	_, err = tr.Sentence()
	require.NoError(t, err)
	if s, err := tr.Session(ids[0]); err != nil || s.State != tracer.StateActive {
		t.Errorf("%+v, %v", s, err)
	}
	require.NoError(t, tr.SetHalt(halt, nil))
	if tr.Features().Level < 3 { // it has no hook that signals
		_, err = tr.Sentence()
		require.NoError(t, err)
	}
	for i, w := range all {
		w.rest()
		w.wait()
		settled(t, tr, ids[i])
	}
	require.NoError(t, tr.Close())
	if err := tr.MarkHalted(halt, ids); err == nil {
		t.Error("sessions that could not be marked are marked")
	}
}

// Another kernel side has the same halt, and no agent starts while it takes over.
func TestTakeOverHalted(t *testing.T) { everySide(t, testTakeOverHalted) }

func testTakeOverHalted(t *testing.T, o tracer.Options) {
	o.Dir = tracertest.Dir(t)
	tr := tracertest.New(t, o)
	haltAgents(t, tr)
	haltNow(t, tr, tracer.HaltAll)
	w := start(t, fmt.Sprintf("i=0; while [ $i -lt 5000 ]; do i=$((i+1)); %s -c 'echo up'; echo died; done 2>/dev/null", shellNamed(t, agentName)))
	w.goOn()
	w.until("died")
	for range 3 {
		before := tr
		o = other(o)
		tr = tracertest.New(t, o)
		before.Close()
	}
	require.Equal(t, tr.Halted(), (tracer.Halt{Mode: tracer.HaltAll, Since: 7, UID: 1000, Reason: "case 7"}))
	unix.Kill(int(w.pid()), unix.SIGKILL)
	if out := string(w.rest()); strings.Contains(out, "up") || !strings.Contains(out, "died") {
		t.Errorf("%q", out)
	}
}
