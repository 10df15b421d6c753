//go:build linux

package tracer_test

import (
	"os/exec"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// Several programs end the members of a condemned session, and each hides that another
// one does nothing. Here each runs alone: the session has the state, and no pass is
// due.

// A member of a condemned session cannot multiply: its child dies before it runs or,
// where no hook can kill the child, the member itself dies.
func TestNewbornOfTheCondemned(t *testing.T) {
	everySide(t, testNewbornOfTheCondemned)
	t.Run("level 2", func(t *testing.T) { testNewbornOfTheCondemned(t, tracer.Options{Level: 2}) })
}

func testNewbornOfTheCondemned(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	if r := tr.Features().Refuses; r != tracer.RefuserNone {
		t.Skipf("%v refuses the fork", r)
	}
	w, id := startIn(t, tr, "(echo ran; read never); echo child $?; read never")
	require.NoError(t, tr.MarkCondemned(id))
	w.goOn()
	if tr.Features().Level < 3 {
		if status := w.wait(); status.Signal() != unix.SIGKILL {
			t.Errorf("the member that forked has the status %#x", status)
		}
		require.Equal(t, counter(t, tr, "newborn_unkilled"), 1)
		sentenced(t, tr, id)
		w.gone()
		settled(t, tr, id)
		return
	}
	require.Equal(t, w.line(), "child 137")
	require.Equal(t, counter(t, tr, "newborn_killed"), 1)
	if s, err := tr.Session(id); err != nil || s.Live != 1 || s.Forks != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	endAll(t, tr, id, w)
}

// It cannot exec another program either.
func TestExecOfTheCondemned(t *testing.T) { onEachSide(t, testExecOfTheCondemned) }

func testExecOfTheCondemned(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, "exec /bin/echo ran")
	diesSilent(t, tr, w, id)
}

// diesSilent condemns a session and lets its root go on.
func diesSilent(t *testing.T, tr *tracer.Tracer, w *workload, id tracer.SessionID) {
	t.Helper()
	require.NoError(t, tr.MarkCondemned(id))
	w.goOn()
	if out := w.rest(); len(out) > 0 {
		t.Errorf("it said %q", out)
	}
	if status := w.wait(); status.Signal() != unix.SIGKILL {
		t.Errorf("it has the status %#x", status)
	}
	settled(t, tr, id)
}

// At level 2, with the syscall closer attached, it dies in its next system call.
func TestSyscallOfTheCondemned(t *testing.T) {
	for name, o := range map[string]tracer.Options{"best": {Level: 2}, "baseline": {Baseline: true}} {
		t.Run(name, func(t *testing.T) { testSyscallOfTheCondemned(t, o) })
	}
}

func testSyscallOfTheCondemned(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	closer, err := tr.AttachCloser()
	if err != nil || closer == nil {
		t.Fatalf("%v, %v", closer, err)
	}
	defer closer.Close()
	w := start(t, "echo ran; read never")
	w.reads() // else an earlier system call is the next
	id := create(t, tr, w, tracer.SessionSpec{})
	diesSilent(t, tr, w, id)
}

// Each hook that makes passes makes the one that is due, and the exit hook does so in
// the exit of the root itself: no other event of the host is needed.
func TestEachHookMakesThePass(t *testing.T) {
	for _, c := range []struct {
		hook  string
		level int
	}{{"fork_sentence", 3}, {"exec_sentence", 3}, {"exit_sentence", 4}} {
		t.Run(c.hook, func(t *testing.T) {
			defer tracer.SentenceOnlyIn(c.hook)()
			tr := tracertest.New(t, tracer.Options{})
			tracertest.NeedsLevel(t, c.level, tr.Features().Level)
			w, id := startIn(t, tr, "setsid sleep 60 & exit")
			w.goOn()
			until(t, "the members are killed", func() bool {
				if c.hook != "exit_sentence" {
					require.NoError(t, exec.Command("/bin/true").Run())
				}
				return !w.held()
			})
			w.wait()
			settledBy(t, tr, id, tracer.CauseRootExit)
		})
	}
}
