//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// Each way to make a process: the process is attributed to its creator, and ended.
// The levels are tried by internal/e2e/escapes.
func TestWaysToEscape(t *testing.T) { onEachSide(t, testWaysToEscape) }

func testWaysToEscape(t *testing.T, tr *tracer.Tracer) {
	for _, args := range [][]string{
		{"cloneparent", "3"}, {"vforkexec"}, {"spawn"}, {"threadexec"}, {"threadfork"},
		{"threadfork", "leaderless"}, {"zombieleader"}, {"daemonise"}, {"daemonise", "clear"},
		{"ignoreterm"}, {"stopped"}, {"bomb", "200"}, {"hop", "2", lifetime, "1000"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			w, id := programIn(t, tr, args...)
			w.goOn()
			if args[0] == "threadexec" { // the thread that could print "ready" is gone
				w.until("member")
			} else {
				w.until("ready")
			}
			for _, p := range members(t, tr, id) {
				if p.PID != w.pid() && !p.Dead && (p.Creator.PID == 0 || p.Creator.Start > p.Start) {
					t.Errorf("%v has creator %v", p.Identity, p.Creator)
				}
			}
			endAll(t, tr, id, w)
			if left := members(t, tr, id); slices.ContainsFunc(left, func(p tracer.Process) bool { return !p.Dead }) {
				t.Errorf("left: %+v", left)
			}
			require.NoError(t, tr.Release(id))
		})
	}
	none(t, tr, "enter_failed", "stale_entries", "reconciled", "live_drift", "delete_failed", "events_malformed")
}

// A process made with clone(CLONE_PARENT) has its real creator, and another parent.
func TestCreatorIsNotParent(t *testing.T) { onEachSide(t, testCreatorIsNotParent) }

func testCreatorIsNotParent(t *testing.T, tr *tracer.Tracer) {
	w, id := programIn(t, tr, "cloneparent", "1")
	w.goOn()
	w.until("ready")
	for _, p := range members(t, tr, id) {
		if p.PID == w.pid() {
			continue
		}
		if p.Creator.PID != w.pid() || p.Parent.PID != uint32(os.Getpid()) {
			t.Errorf("creator %v, want %d; parent %v, want %d", p.Creator, w.pid(), p.Parent, os.Getpid())
		}
	}
	endAll(t, tr, id, w)
}

func TestMaxProcesses(t *testing.T) { onEachSide(t, testMaxProcesses) }

func testMaxProcesses(t *testing.T, tr *tracer.Tracer) {
	w := program(t, "bomb", "500")
	id := create(t, tr, w, tracer.SessionSpec{MaxProcesses: 20})
	w.goOn()
	// Below level 4 a fork or an exec makes the pass, and where forks of the condemned
	// are refused an idle host has none.
	nobodyLives(t, tr, id, 4)
	w.gone()
	w.wait()
	if s := settled(t, tr, id); s.Cause != tracer.CauseMaxProcesses || s.Peak > 21 {
		t.Errorf("ended by %v with a peak of %d", s.Cause, s.Peak)
	}
	full := start(t, ":")
	id = create(t, tr, full, tracer.SessionSpec{MaxProcesses: 1})
	sentence(t, tr)
	if s, err := tr.Session(id); err != nil || s.State != tracer.StateActive {
		t.Errorf("as many as it may have: %+v, %v", s, err)
	}
	endAll(t, tr, id, full)
}

// Children that were waited for do not count, although the kernel reports them late;
// zombies that are not waited for do.
func TestMaxProcessesCountsZombiesOnly(t *testing.T) {
	onEachSide(t, testMaxProcessesCountsZombiesOnly)
}

func testMaxProcessesCountsZombiesOnly(t *testing.T, tr *tracer.Tracer) {
	w := start(t, `i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; echo done; read go`)
	id := create(t, tr, w, tracer.SessionSpec{MaxProcesses: 5})
	w.goOn()
	require.Equal(t, w.line(), "done")
	if s, err := tr.Session(id); err != nil || s.State != tracer.StateActive {
		t.Errorf("400 children, one at a time: %+v, %v", s, err)
	}
	w.goOn()
	w.wait()
	settled(t, tr, id)

	z := program(t, "zombies", "500") // longer than the 10 ms between two looks
	id = create(t, tr, z, tracer.SessionSpec{MaxProcesses: 20})
	z.goOn()
	nobodyLives(t, tr, id, 3)
	z.gone()
	z.wait()
	require.Equal(t, settled(t, tr, id).Cause, tracer.CauseMaxProcesses)
}

// The lifetime ends a session at the first event after it, without any request.
func TestMaxLifetime(t *testing.T) { onEachSide(t, testMaxLifetime) }

func testMaxLifetime(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, "sleep 60 & echo; wait")
	w.goOn()
	w.line()
	require.NoError(t, tr.SetTerms(id, tracer.SessionSpec{MaxLifetime: 100 * time.Millisecond}))
	until(t, "nobody lives", func() bool {
		s, err := tr.Session(id)
		if err == nil && s.Live > 0 {
			err = exec.Command("/bin/true").Run() // an event
		}
		if err == nil && tr.Features().Level < 3 {
			_, err = tr.Sentence()
		}
		return err == nil && s.Live == 0
	})
	settledBy(t, tr, id, tracer.CauseMaxLifetime)
}

func TestProtected(t *testing.T) { onEachSide(t, testProtected) }

func testProtected(t *testing.T, tr *tracer.Tracer) {
	w := start(t, "read never")
	require.NoError(t, tr.Protect(w.pid()))
	_, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: w.pid()}})
	require.ErrorIs(t, err, tracer.ErrProtected, "a protected process became a root")
	require.NoError(t, tr.Unprotect(identify(t, tr, w.pid())))
	again := create(t, tr, w, tracer.SessionSpec{})
	tr.End(again, tracer.CauseEnd, 0)
	w.wait()
	settled(t, tr, again)
	m, id := startIn(t, tr, "read never")
	require.ErrorIs(t, tr.Protect(m.pid()), tracer.ErrProtected, "a member was protected")
	tr.End(id, tracer.CauseEnd, 0)
	m.wait()
	settled(t, tr, id)
}

func TestCreateRefuses(t *testing.T) { onEachSide(t, testCreateRefuses) }

func testCreateRefuses(t *testing.T, tr *tracer.Tracer) {
	w := start(t, "read never")
	self := identify(t, tr, w.pid())
	gone := start(t, "true")
	gone.cmd.Process.Kill()
	gone.wait()
	for name, root := range map[string]tracer.Identity{
		"PID gone":             {PID: gone.pid()},
		"another process now":  {PID: self.PID, Start: self.Start + 1},
		"a thread, no process": {PID: thread(t)},
		"a kernel thread":      {PID: 2},
		"owner is gone":        self,
		"no PID at all":        {},
	} {
		s := tracer.SessionSpec{Root: root}
		if name == "owner is gone" {
			s.Owner = tracer.Identity{PID: gone.pid()}
		}
		if _, err := tr.Create(s); !errors.Is(err, tracer.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tr.Create(tracer.SessionSpec{Root: self, MaxLifetime: -1}); err == nil {
		t.Error("a negative lifetime was taken")
	}
	all, err := tr.Sessions()
	if err != nil || len(all) != 0 {
		t.Errorf("refused sessions are left: %+v, %v", all, err)
	}
	if e, err := tr.Lookup(w.pid()); err == nil {
		t.Errorf("a refused root is entered: %+v", e)
	}
	var taken tracer.SessionID // by a session of the history
	id := create(t, tr, w, tracer.SessionSpec{Taken: func(id tracer.SessionID) bool {
		first := taken == 0
		if first {
			taken = id
		}
		return first
	}})
	if taken == 0 || id.String() == taken.String() {
		t.Errorf("the id %v is used again", id)
	}
	endAll(t, tr, id, w)
}

// thread returns the id of a thread of this process that is not its leader.
func thread(t *testing.T) uint32 {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, task := range tasks {
		if pid := parse(t, task.Name()); pid != uint32(os.Getpid()) {
			return pid
		}
	}
	t.Fatal("this process has one thread")
	return 0
}

// The baseline's reconcile asks about entries that a walk did not meet. If the process
// is alive after all, it stays entered.
func TestBuryLeavesTheLiving(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Baseline: true})
	w, id := startIn(t, tr, "read never")
	root := identify(t, tr, w.pid())
	if removed, err := tr.Bury(root); err != nil || removed {
		t.Errorf("removed %v: %v", removed, err)
	}
	if e, err := tr.Lookup(w.pid()); err != nil || e.Session != id {
		t.Errorf("its entry: %+v, %v", e, err)
	}
	endAll(t, tr, id, w)
}

// A birth that no hook saw is found by the kernel's own walk, and no outsider is entered.
func TestReconcile(t *testing.T) { everySide(t, testReconcile) }

func testReconcile(t *testing.T, o tracer.Options) {
	o.Dir = tracertest.Dir(t)
	tr := tracertest.New(t, o)
	w, id := startIn(t, tr, "sleep 60 & echo $!; while read go; do sleep 61 & echo $!; done")
	w.goOn()
	w.line()
	outsider := start(t, "sleep 62 & echo $!; wait")
	outsider.goOn()
	outside := parse(t, outsider.line())
	t.Cleanup(func() { unix.Kill(int(outside), unix.SIGKILL) })

	for _, name := range []string{"fork_birth", "exit_death", "attach_birth", "notify_death"} {
		unhook(t, o.Dir, name)
	}
	var missed uint32
	live := int64(2)
	until(t, "a birth is missed", func() bool { // the kernel detaches with a delay
		w.goOn()
		missed = parse(t, w.line())
		live++
		_, err := tr.Lookup(missed)
		return errors.Is(err, tracer.ErrNotFound)
	})
	added, removed, err := tr.Reconcile()
	if err != nil || added != 1 || removed != 0 {
		t.Errorf("added %d, removed %d: %v", added, removed, err)
	}
	e, err := tr.Lookup(missed)
	if err != nil || e.Session != id || e.Evidence != tracer.EvidenceReconciled {
		t.Errorf("after reconcile: %+v, %v", e, err)
	}
	_, err = tr.Lookup(outside)
	require.ErrorIs(t, err, tracer.ErrNotFound, "an outsider was entered")
	if s, _ := tr.Session(id); s.Live != live {
		t.Errorf("live %d, want %d", s.Live, live)
	}
	// Deaths are missed too, now: a walk removes the entries.
	tr.End(id, tracer.CauseEnd, 0)
	w.gone()
	w.wait()
	until(t, "the dead are removed", func() bool {
		_, removed, err := tr.Reconcile()
		s, serr := tr.Session(id)
		return err == nil && serr == nil && removed >= 0 && s.Live == 0
	})
	settled(t, tr, id)
}
