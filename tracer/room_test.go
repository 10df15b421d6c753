//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A member's child that there is no room to enter does not run: it would be in no
// session. Its creator lives.
func TestNoRoomForTheLiving(t *testing.T) {
	const room, forks = 64, 100
	dir := tracertest.Dir(t)
	pretendPIDMax(t, room)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	tracertest.NeedsLevel(t, 3, tr.Features().Level) // below, see TestNoRoomForTheLivingBelowLevel3
	w, id := startIn(t, tr, fmt.Sprintf("i=0; while [ $i -lt %d ]; do (echo born; exec sleep 60) & i=$((i+1)); done; echo made; read never", forks))
	w.goOn()
	born, killed := 0, 0
	for made := false; !made || born < forks-killed; {
		switch w.line() {
		case "born":
			born++
		case "made":
			made, killed = true, int(counter(t, tr, "newborn_killed"))
			// With trampolines a birth has two writers, and both fail.
			if n := int(counter(t, tr, "enter_failed")); killed == 0 || n != killed && n != 2*killed {
				t.Fatalf("%d could not be entered, %d were killed at birth", n, killed)
			}
		}
	}
	if s, err := tr.Session(id); err != nil || s.Live != int64(born)+1 || s.State != tracer.StateActive {
		t.Errorf("%d run besides the root: %+v, %v", born, s, err)
	}
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	if rest := w.rest(); len(rest) > 0 {
		t.Errorf("who was not entered ran and said %q", rest)
	}
	w.wait()
	settled(t, tr, id)
}

// The same where no hook can kill another process: the session says that such children
// were born, and they and theirs are found while their creator lives. No outsider is hit.
func TestNoRoomForTheLivingBelowLevel3(t *testing.T) {
	for name, o := range map[string]tracer.Options{"best": {Level: 2}, "baseline": {Baseline: true}} {
		t.Run(name, func(t *testing.T) { testNoRoomBelowLevel3(t, o) })
	}
}

func testNoRoomBelowLevel3(t *testing.T, o tracer.Options) {
	const room, forks = 64, 80
	o.Dir = tracertest.Dir(t)
	pretendPIDMax(t, room)
	tr := tracertest.New(t, o)
	outsider := start(t, "exec sleep 60")
	outsider.goOn()
	w := start(
		t,
		fmt.Sprintf(
			"sleep 60 >/dev/null & echo $!; read go; i=0; while [ $i -lt %d ]; do (sleep 60 & echo born; exec sleep 60) & i=$((i+1)); done; read go; echo made; read never",
			forks,
		),
	)
	w.goOn()
	older := parse(t, w.line()) // than the session
	t.Cleanup(func() { unix.Kill(int(older), unix.SIGKILL) })
	id := create(t, tr, w, tracer.SessionSpec{Adopted: true})
	w.goOn()
	for range forks {
		w.until("born")
	}
	w.goOn()
	w.until("made")
	s, err := tr.Session(id)
	if n := counter(t, tr, "enter_failed"); err != nil || s.Unentered == 0 || uint64(s.Unentered) > n ||
		s.State != tracer.StateActive {
		t.Fatalf("%d could not be entered: %+v, %v", n, s, err)
	}
	_, _, err = tr.Reconcile()
	require.NoError(t, err)
	if again, err := tr.Session(id); err != nil || again.Live != s.Live {
		t.Errorf("%d live besides those that there was no room for, before %d, %v", again.Live, s.Live, err)
	}
	if s := endAll(t, tr, id, w); s.Unentered == 0 || s.Drifted {
		t.Errorf("%+v", s)
	}
	if !outsider.held() || len(require.ReadFile(t, fmt.Sprintf("/proc/%d/cmdline", older))) == 0 {
		t.Error("an outsider is dead, or a child that the root had before")
	}
}

// pretendPIDMax makes this kernel report fewer PIDs: what is sized by their number
// becomes small. The mount namespace is the tests' own.
func pretendPIDMax(t *testing.T, n int) {
	t.Helper()
	const path = "/proc/sys/kernel/pid_max"
	file := filepath.Join(t.TempDir(), "pid_max")
	require.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(n)+"\n"), 0o644))
	require.NoError(t, unix.Mount(file, path, "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(path, 0))
	})
}
