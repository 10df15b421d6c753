//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

func pinned(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, tracer.ABI()+"-*"))
	return len(found) > 0
}

func parse(t *testing.T, s string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 32)
	require.NoError(t, err)
	return uint32(n)
}

// unhook unpins one program's link, if this kernel has it. The kernel detaches it a
// little later.
func unhook(t *testing.T, dir, name string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "link_"+name))
	require.NoError(t, err)
	for _, path := range paths {
		require.NoError(t, os.Remove(path))
	}
}

// Sessions and attribution continue while no tracer is open.
func TestPinsOutliveTheTracer(t *testing.T) { everySide(t, testPinsOutliveTheTracer) }

func testPinsOutliveTheTracer(t *testing.T, o tracer.Options) {
	o.Dir = tracertest.Dir(t)
	first := tracertest.New(t, o)
	w := start(t, "read go; setsid sleep 60 & echo $!; wait")
	id := create(t, first, w, tracer.SessionSpec{Name: "pinned"})
	require.NoError(t, first.Close())
	w.goOn()
	w.goOn()
	born := parse(t, w.line())

	second := tracertest.New(t, o)
	if got, want := second.Features(), first.Features(); got.Level != want.Level || got.ABI != want.ABI {
		t.Errorf("opened %+v, loaded %+v", got, want)
	}
	s, err := second.Session(id)
	if err != nil || s.Name != "pinned" || s.Live != 2 {
		t.Errorf("session after the gap: %+v, %v", s, err)
	}
	if e, err := second.Lookup(born); err != nil || e.Session != id {
		t.Errorf("born in the gap: %+v, %v", e, err)
	}
	all, err := second.Sessions()
	if err != nil || len(all) != 1 || all[0].ID != id {
		t.Errorf("sessions: %+v, %v", all, err)
	}
	endAll(t, second, id, w)
}

// The root's exit ends its session although no tracer is running.
func TestRootExitWithoutTracer(t *testing.T) {
	dir := tracertest.Dir(t)
	first := tracertest.New(t, tracer.Options{Dir: dir})
	tracertest.NeedsLevel(t, 4, first.Features().Level)
	w := start(t, "setsid sleep 60 & read go; exit 0")
	id := create(t, first, w, tracer.SessionSpec{})
	first.Close()
	w.goOn()
	w.goOn()
	w.gone()
	w.wait()
	if n, err := tracer.Live(dir, ""); err != nil || n != 0 {
		t.Errorf("%d sessions would keep these pins: %v", n, err)
	}
	second := tracertest.New(t, tracer.Options{Dir: dir})
	settled(t, second, id)
}

// With a grace and no tracer: SIGTERM in the root's own exit, SIGKILL in the first
// fork, exec or exit of the host after the deadline.
func TestGraceWithoutTracer(t *testing.T) {
	dir := tracertest.Dir(t)
	first := tracertest.New(t, tracer.Options{Dir: dir})
	tracertest.NeedsLevel(t, 4, first.Features().Level)
	w := start(t, `sh -c 'trap "echo term" TERM; echo up; while :; do sleep 60 & wait; done' & read go; exit 0`)
	id := create(t, first, w, tracer.SessionSpec{Grace: require.Slowed(5 * time.Second)}) // time to print the message
	first.Close()
	w.goOn()
	w.until("up")
	w.goOn()
	w.until("term")
	until(t, "the members are killed", func() bool {
		require.NoError(t, exec.Command("/bin/true").Run()) // an event of an outsider
		return !w.held()
	})
	w.wait()
	second := tracertest.New(t, tracer.Options{Dir: dir})
	require.Equal(t, settled(t, second, id).Cause, tracer.CauseRootExit)
}

func TestUnload(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	w := start(t, "sleep 60 & echo $!; wait")
	create(t, tr, w, tracer.SessionSpec{})
	tr.Close()
	require.NoError(t, tracer.Unload(dir))
	if pinned(dir) {
		t.Error("still pinned")
	}
	w.goOn()
	sleeper := parse(t, w.line()) // no process was signalled
	again := tracertest.New(t, tracer.Options{Dir: dir})
	_, err := again.Lookup(sleeper)
	require.ErrorIs(t, err, tracer.ErrNotFound, "the unloaded kernel side lives on")
	w.cmd.Process.Kill()
	p, _ := os.FindProcess(int(sleeper))
	p.Kill()
}

func TestOpenRefuses(t *testing.T) {
	tracertest.Dir(t)
	if _, err := tracer.Open(tracer.Options{Dir: "/tmp/lngtest-pins"}); !errors.Is(err, tracer.ErrNoBPFFS) ||
		!errors.Is(err, tracer.ErrUnsupported) {
		t.Errorf("no bpffs: %v", err)
	}
	for _, size := range []int{1, 4095, 12288, -4096} {
		if _, err := tracer.Open(tracer.Options{Dir: "/sys/fs/bpf/lngtest-none", RingSize: size}); err == nil {
			t.Errorf("ring size %d was taken", size)
		}
	}
	if pinned("/sys/fs/bpf/lngtest-none") {
		t.Error("a refused open left pins")
	}
}

// A hook that is loaded and does not fire is named, also by a daemon that opens the pins of an earlier one. The others
// do when a process forks, execs, is killed and reaped.
func TestWatchRuns(t *testing.T) { everySide(t, testWatchRuns) }

func testWatchRuns(t *testing.T, o tracer.Options) {
	o.Dir = tracertest.Dir(t)
	require.NoError(t, tracertest.New(t, o).Close())
	tr := tracertest.New(t, o)
	watch := func() tracer.Runs {
		runs, err := tr.WatchRuns()
		require.NoError(t, err)
		return runs
	}
	silent := []string{"exec_event"}
	if r := tr.Features().Refuses; r != tracer.RefuserNone {
		silent = append(silent, "guard_"+r.String(), "refuse_"+r.String())
	}
	for _, name := range silent {
		unhook(t, o.Dir, name)
	}
	runs := watch()
	until(t, "every other hook fires", func() bool {
		child := exec.Command("sleep", "60")
		require.NoError(t, child.Start())
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // it was killed
		idle, err := runs.Idle()
		require.NoError(t, err)
		if len(idle) < len(silent) { // not detached yet
			require.NoError(t, runs.Close())
			runs = watch()
		}
		return slices.Equal(idle, silent)
	})
	require.NoError(t, runs.Close())
}
