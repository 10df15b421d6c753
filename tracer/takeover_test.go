//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// sides names the kernel sides that are pinned under dir.
func sides(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, d := range found {
		names = append(names, d.Name())
	}
	return names
}

// other returns options that make a different kernel side from o.
func other(o tracer.Options) tracer.Options {
	o.RingSize = map[bool]int{true: 4 << 20, false: 2 << 20}[o.RingSize == 2<<20]
	return o
}

// Another kernel side has the same sessions: ids, limits, states, members, their
// creators and flags, and the dead that were not waited for.
func TestTakeOver(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	first := tracertest.New(t, o)
	w := start(t, "sleep 60 & echo $!; (setsid sleep 61 & echo $!); read go; sleep 62 & echo $!; wait")
	owner := start(t, "wait")
	ownerID, err := first.Identify(owner.pid())
	require.NoError(t, err)
	id := create(t, first, w, tracer.SessionSpec{
		Name: "elder", UID: 1001, Owner: ownerID, Grace: 90 * time.Second, MaxProcesses: 50, MaxLifetime: time.Hour,
		MaxRSS: 1 << 40, Idle: 2 * time.Hour, KeepOnRootExit: true,
	})
	w.goOn()
	plain, orphan := parse(t, w.line()), parse(t, w.line())
	nested, err := first.Create(tracer.SessionSpec{Root: tracer.Identity{PID: plain}, Name: "nested"})
	require.NoError(t, err)
	z := program(t, "zombies", "3") // children that are not waited for
	zid := create(t, first, z, tracer.SessionSpec{Name: "zombies"})
	z.goOn()
	z.until("ready")
	ending := start(t, `trap "" TERM; sleep 60 & echo up; wait`)
	eid := create(t, first, ending, tracer.SessionSpec{Name: "ending", Grace: time.Hour})
	ending.goOn()
	ending.until("up")
	require.NoError(t, first.End(eid, tracer.CauseEnd, time.Hour))
	until(t, "the zombies are dead", func() bool {
		s, err := first.Settle(zid)
		return err == nil && s.Unreaped == 3 && s.Dying == 0
	})
	until(t, "the orphan's creator is reaped", func() bool {
		s, err := first.Settle(id)
		return err == nil && s.Live == 3 && s.Unreaped == 0 && s.Dying == 0
	})
	pids := []uint32{w.pid(), owner.pid(), plain, orphan, z.pid()}
	require.NoError(t, first.SetCall(identify(t, first, w.pid()), 7, true))
	before := entries(t, first, pids)
	was, err := first.Sessions()
	require.NoError(t, err)
	first.Close()

	second := tracertest.New(t, other(o))
	if names := sides(t, o.Dir); len(names) != 1 {
		t.Errorf("pinned: %v", names)
	}
	is, err := second.Sessions()
	require.NoError(t, err)
	if !slices.Equal(is, was) {
		t.Errorf("sessions were\n%+v\nthey are\n%+v", was, is)
	}
	if after := entries(t, second, pids); !slices.Equal(after, before) {
		t.Errorf("entries were\n%+v\nthey are\n%+v", before, after)
	}
	w.goOn()
	born := parse(t, w.line())
	if e, err := second.Lookup(born); err != nil || e.Session != id || e.Creator.PID != w.pid() || e.Call != 7 {
		t.Errorf("born after: %+v, %v", e, err)
	}
	if s, err := second.Session(nested); err != nil || s.Parent != id || s.Live != 1 {
		t.Errorf("nested: %+v, %v", s, err)
	}
	for _, id := range []tracer.SessionID{id, zid, eid} {
		require.NoError(t, second.End(id, tracer.CauseEnd, 0))
	}
	for _, x := range []*workload{w, z, ending} {
		x.gone()
		x.wait()
	}
	for _, id := range []tracer.SessionID{nested, id, zid, eid} {
		settled(t, second, id)
		// A dead process of it may be reaped at this moment.
		until(t, "its record is released", func() bool { return second.Release(id) == nil })
	}
	again := start(t, "sleep 60")
	if got := create(t, second, again, tracer.SessionSpec{}); slices.Contains([]tracer.SessionID{id, nested, zid, eid}, got) {
		t.Errorf("the slot of %v was given twice", got)
	}
}

func entries(t *testing.T, tr *tracer.Tracer, pids []uint32) []tracer.Entry {
	t.Helper()
	var all []tracer.Entry
	for _, pid := range pids {
		e, err := tr.Lookup(pid)
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// A root that dies while two kernel sides trace ends its session in the one that remains.
func TestTakeOverFromDeadRoot(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t), Level: 2} // it does not end sessions automatically
	first := tracertest.New(t, o)
	w := start(t, "setsid sleep 60 & exit 0")
	id := create(t, first, w, tracer.SessionSpec{})
	w.goOn()
	first.Close()
	w.wait()
	second := tracertest.New(t, tracer.Options{Dir: o.Dir})
	tracertest.NeedsLevel(t, 3, second.Features().Level)
	w.gone()
	require.Equal(t, settled(t, second, id).Cause, tracer.CauseRootExit)
}

// Processes that fork and exit all the time are handed from one kernel side to the
// next, again and again, and none escapes.
func TestTakeOverInStorm(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	tr := tracertest.New(t, o)
	w, id := programIn(t, tr, "hop", "4", lifetime, "5000")
	w.goOn()
	w.until("ready")
	for range 6 {
		tr.Close()
		o = other(o)
		tr = tracertest.New(t, o)
	}
	if names := sides(t, o.Dir); len(names) != 1 {
		t.Errorf("pinned: %v", names)
	}
	s := endAll(t, tr, id, w)
	t.Logf("%d forks", s.Forks)
	none(t, tr, "live_drift")
}

// What a crash left half made, or half removed, is not a kernel side.
func TestOpenStalePins(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	for _, name := range []string{"unfinished/map_counters", "retired", "0badab1e", "0badab1e-00000000"} {
		require.NoError(t, os.MkdirAll(filepath.Join(o.Dir, name), 0o700))
	}
	tr := tracertest.New(t, o)
	if names := sides(t, o.Dir); len(names) != 1 {
		t.Errorf("pinned: %v", names)
	}
	tr.Close()
	if n, err := tracer.Live(o.Dir, ""); err != nil || n != 0 {
		t.Errorf("live %d, %v", n, err)
	}
}

// A kernel side with a missing pin is made again, with its sessions.
func TestOpenDamaged(t *testing.T) { everySide(t, testOpenDamaged) }

func testOpenDamaged(t *testing.T, o tracer.Options) {
	for _, part := range []string{"link_fork_birth", "program_verb_end", "map_counters"} {
		t.Run(part, func(t *testing.T) {
			o.Dir = tracertest.Dir(t)
			first := tracertest.New(t, o)
			w := start(t, "sleep 60 & echo $!; read go; sleep 60 & echo $!; wait")
			id := create(t, first, w, tracer.SessionSpec{Name: "survives"})
			first.Close()
			require.NoError(t, os.Remove(filepath.Join(o.Dir, sides(t, o.Dir)[0], part)))
			w.goOn()
			between := parse(t, w.line()) // its birth may have been missed
			second := tracertest.New(t, o)
			if e, err := second.Lookup(between); err != nil || e.Session != id {
				t.Errorf("born in between: %+v, %v", e, err)
			}
			if len(second.Features().Degraded) <= len(first.Features().Degraded) {
				t.Errorf("nothing is said of it: %v", second.Features().Degraded)
			}
			w.goOn()
			if e, err := second.Lookup(parse(t, w.line())); err != nil || e.Session != id {
				t.Errorf("born after: %+v, %v", e, err)
			}
			if n, err := tracer.Live(o.Dir, ""); err != nil || n != 1 {
				t.Errorf("live %d, %v", n, err)
			}
			endAll(t, second, id, w)
		})
	}
}

// Opening is killed at any moment, between two configurations: what is pinned then can
// be opened, and has the session.
func TestTakeOverKilled(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	tr := tracertest.New(t, o)
	w := start(t, "while read go; do sleep 60 & echo $!; done")
	id := create(t, tr, w, tracer.SessionSpec{Name: "tenacious"})
	w.goOn()
	tr.Close()
	const rounds = 12
	for round := range rounds {
		o = other(o)
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), openOnly+"="+o.Dir)
		if o.RingSize == 2<<20 {
			cmd.Env = append(cmd.Env, openOnly+"_SMALL=1")
		}
		require.NoError(t, cmd.Start())
		// From its start to about its end.
		time.Sleep(time.Duration(round) * 100 * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		w.goOn()
		parse(t, w.line())
	}
	tr = tracertest.New(t, o)
	if names := sides(t, o.Dir); len(names) != 1 {
		t.Errorf("pinned: %v", names)
	}
	if s, err := tr.Session(id); err != nil || s.Live != rounds+1 || s.Forks != rounds {
		t.Errorf("session: %+v, %v", s, err)
	}
	endAll(t, tr, id, w)
}

// The maps of a version with a different layout are read by their types.
func TestTakeOverOtherLayout(t *testing.T) {
	dir := tracertest.Dir(t)
	w := start(t, "sleep 60 & echo $!; read go; sleep 61 & echo $!; wait")
	w.goOn()
	child := parse(t, w.line())
	probe := tracertest.New(t, tracer.Options{}) // to read start times
	root, err := probe.Identify(w.pid())
	require.NoError(t, err)
	kid, err := probe.Identify(child)
	require.NoError(t, err)
	const id = tracer.SessionID(77 | 0x1234567<<32)
	old := newOldSide(t, filepath.Join(dir, "0badab1e"))
	old.put(
		"processes", "entry",
		root.PID,
		map[string]any{"start": root.Start, "session": uint64(id), "since": root.Start, "flags": uint32(tracer.FlagRoot), "evidence": uint32(tracer.EvidenceRoot)},
	)
	old.put("processes", "entry", kid.PID, map[string]any{"start": kid.Start, "session": uint64(id), "since": kid.Start, "evidence": uint32(tracer.EvidenceFork), "creator": root})
	old.put("sessions", "session", uint32(id&0xffff), map[string]any{"id": uint64(id), "root": root, "created": root.Start, "forks": uint64(9), "live": int64(2), "peak": uint64(2)})
	for i, state := range []tracer.State{tracer.StateDissolved, tracer.StateActive} {
		old.put("session_ctl", "ctl", uint32(id&0xffff), map[string]any{"id": uint64(id), "status": uint32(state), "grace": uint64(time.Minute), "uid": uint32(1234)})
		if n, err := tracer.Live(dir, ""); err != nil || n != i {
			t.Fatalf("%v: live %d, %v", state, n, err)
		}
	}
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	s, err := tr.Session(id)
	if err != nil || s.State != tracer.StateActive || s.Root != root || s.Live != 2 || s.Forks != 9 || s.Grace != time.Minute || s.UID != 1234 {
		t.Errorf("session: %+v, %v", s, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != id || e.Creator != root || e.Evidence != tracer.EvidenceFork {
		t.Errorf("child: %+v, %v", e, err)
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); err != nil || !runs(t, tr, child, link).File {
		t.Errorf("the child does not run %s: %v", link, err)
	}
	w.goOn()
	if e, err := tr.Lookup(parse(t, w.line())); err != nil || e.Session != id {
		t.Errorf("born after: %+v, %v", e, err)
	}
	endAll(t, tr, id, w)
}

// Maps that lack a necessary field, or keep the dead elsewhere, are refused, and stay.
func TestTakeOverUnreadable(t *testing.T) {
	for _, name := range []string{"processes", "dead"} {
		t.Run(name, func(t *testing.T) { testTakeOverUnreadable(t, name) })
	}
}

func testTakeOverUnreadable(t *testing.T, name string) {
	dir := tracertest.Dir(t)
	old := newOldSide(t, filepath.Join(dir, "0badab1e"))
	old.make(&ebpf.MapSpec{Name: name, Type: ebpf.Hash, MaxEntries: 10, KeySize: 4, ValueSize: 8})
	_, err := tracer.Open(tracer.Options{Dir: dir})
	require.ErrorIs(t, err, tracer.ErrOtherABI, "opened")
	_, err = tracer.Live(dir, "")
	require.ErrorIs(t, err, tracer.ErrOtherABI, "live")
	if names := sides(t, dir); !slices.Equal(names, []string{"0badab1e"}) {
		t.Errorf("pinned: %v", names)
	}
}

// A take-over that fails leaves opening sessions to the programs before.
func TestTakeOverFails(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	first := tracertest.New(t, o)
	require.NoError(t, first.SetAgents([]tracer.Agent{{Comm: agentName}}))
	spoiled := &oldSide{t: t, dir: filepath.Join(o.Dir, sides(t, o.Dir)[0]), maps: map[string]*ebpf.Map{}}
	spoiled.make(&ebpf.MapSpec{Name: "listeners", Type: ebpf.Hash, MaxEntries: 10, KeySize: 4, ValueSize: 8})
	if _, err := tracer.Open(other(o)); err == nil {
		t.Error("listeners of an unknown layout were taken over")
	}
	w := agent(t, agentName, "read never")
	w.goOn()
	endAll(t, first, opened(t, first, w.pid()).ID, w)
}

// openOnly in the environment makes this binary only open a directory of pins; it is
// killed while it does.
const openOnly = "LNGTEST_OPEN"

func openAndExit(dir string) int {
	o := tracer.Options{Dir: dir, RingSize: 4 << 20}
	if os.Getenv(openOnly+"_SMALL") != "" {
		o.RingSize = 2 << 20
	}
	unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	tr, err := tracer.Open(o)
	if err != nil {
		return 1
	}
	tr.Close()
	return 0
}

// Agents exec all the time while one kernel side takes over from another, again and again. Each
// has a session of its own on the new side, with its child.
func TestTakeOverWhileAgentsExec(t *testing.T) { everySide(t, testTakeOverWhileAgentsExec) }

func testTakeOverWhileAgentsExec(t *testing.T, o tracer.Options) {
	const agents = 400
	o.Dir = tracertest.Dir(t)
	tr := tracertest.New(t, o)
	w := start(t, fmt.Sprintf("exec 3<&0; i=0; while [ $i -lt %d ]; do i=$((i+1)); %s -c 'sleep %d & read go' <&3 & sleep 0.01; echo; done; echo all; wait",
		agents, shellNamed(t, agentName), int((10*patience).Seconds())))
	around := create(t, tr, w, tracer.SessionSpec{Name: "around"})
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName, Nests: true, Grace: time.Hour}}))
	w.goOn()
	const turns = 6
	skipped := 0 // from kernel 7 on: see TestMissedAgents
	missedBy := func(tr *tracer.Tracer) {
		if m, err := tr.RecursionMisses(); err != nil {
			t.Error(err)
		} else if len(m) > 0 {
			t.Logf("programs that the kernel skipped: %v", m)
			skipped += int(m[bpf.LineageProgExecEvent])
		}
	}
	for range turns {
		before := tr
		o = other(o)
		tr = tracertest.New(t, o)
		missedBy(before)
		before.Close()
	}
	w.until("all")
	until(t, "each agent has its child", func() bool {
		s, err := tr.Session(around)
		return err == nil && s.Live >= 1+2*agents
	})
	missedBy(tr)
	sessions, err := tr.Sessions()
	require.NoError(t, err)
	in := map[tracer.SessionID]bool{}
	for _, s := range sessions {
		in[s.ID] = true
		if s.ID != around && (!s.Agent || s.Parent != around || s.Grace != time.Hour || s.State != tracer.StateActive || s.Live != 2) {
			t.Errorf("%+v", s)
		}
	}
	var missed []tracer.Identity
	for _, p := range members(t, tr, around) {
		if !in[p.Session] {
			t.Errorf("%v is in session %v, which is not there", p.Identity, p.Session)
		}
		if p.Comm.String() == agentName && p.Session == around && !p.Dead {
			missed = append(missed, p.Identity)
		}
	}
	if len(missed) > skipped {
		t.Errorf("%v opened no session, and the kernel skipped the exec of %d", missed, skipped)
	}
	if s, err := tr.Session(around); err != nil || int(s.Nested) < agents-skipped || len(sessions) != 1+int(s.Nested) {
		t.Errorf("%d sessions, %+v, %v", len(sessions), s, err)
	}
	if s := endAll(t, tr, around, w); s.Drifted {
		t.Error("its count had drifted")
	}
}
