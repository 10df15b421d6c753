//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A member's death is missed and its PID is reused by an outsider: the outsider
// inherits nothing, is not signalled, and still exists after the repair. The same holds
// for its child.
func TestPIDReuseAfterLostExit(t *testing.T) {
	everySide(t, func(t *testing.T, o tracer.Options) {
		t.Run("alone", func(t *testing.T) { testPIDReuseAfterLostExit(t, o, false) })
		t.Run("with a child", func(t *testing.T) { testPIDReuseAfterLostExit(t, o, true) })
	})
}

func testPIDReuseAfterLostExit(t *testing.T, o tracer.Options, forks bool) {
	o.Dir = tracertest.Dir(t)
	tr := tracertest.New(t, o)
	w, id := startIn(t, tr, "while read go; do sleep 60 & echo $!; wait $!; echo reaped; done")
	w.goOn()
	for _, name := range []string{"exit_death", "notify_death"} {
		unhook(t, o.Dir, name)
	}
	var old tracer.Entry
	until(t, "a death is missed", func() bool { // the kernel detaches with a delay
		w.goOn()
		pid := parse(t, w.line())
		require.NoError(t, unix.Kill(int(pid), unix.SIGKILL))
		w.until("reaped")
		var err error
		old, err = tr.Lookup(pid)
		return err == nil
	})
	outsider := program(t, "bystander", "lngtest-other", fmt.Sprint(old.PID))
	outsider.goOn()
	outsider.until("ready")
	now, err := tr.Identify(old.PID)
	if err != nil || now.Start <= old.Start {
		t.Fatalf("%v has the PID of %v: %v", now, old.Identity, err)
	}
	seen := false
	err = tr.Snapshot(0, func(p *tracer.Process) error {
		if p.Identity == now {
			seen = true
			require.Equal(t, p.Session, 0)
		}
		return nil
	})
	if err != nil || !seen {
		t.Errorf("the outsider is not in the snapshot: %v", err)
	}
	var child uint32
	if forks {
		_, err := io.WriteString(outsider.in, "f")
		require.NoError(t, err)
		_, err = fmt.Sscanf(outsider.line(), "member %d", &child)
		require.NoError(t, err)
		defer unix.Kill(int(child), unix.SIGKILL) // its parent has not waited for it
		if e, err := tr.Lookup(child); !errors.Is(err, tracer.ErrNotFound) {
			t.Errorf("the outsider's child is entered: %+v, %v", e, err)
		}
	}
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	until(t, "the workload has gone", func() bool {
		sentence(t, tr)
		return zombie(t, tr, w.pid())
	})
	w.wait()
	until(t, "the missed deaths are put right", func() bool {
		_, _, err := tr.Reconcile()
		require.NoError(t, err)
		s, err := tr.Settle(id)
		return err == nil && s.State == tracer.StateEmpty
	})
	if e, err := tr.Lookup(old.PID); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("an entry has the outsider's PID: %+v, %v", e, err)
	}
	_, err = io.WriteString(outsider.in, "\n")
	require.NoError(t, err)
	require.Equal(t, outsider.line(), "signals 0")
	if forks && zombie(t, tr, child) {
		t.Error("the outsider's child was killed")
	}
}

// A root or an owner has died, and another member has its PID before the next look: the
// session ends all the same. Below level 3, where no hook acts on the death itself.
func TestPIDReuseOfRootAndOwner(t *testing.T) {
	for name, o := range map[string]tracer.Options{"best": {Level: 2}, "baseline": {Baseline: true}} {
		for _, who := range []string{"root", "owner"} {
			t.Run(name+"/"+who, func(t *testing.T) { testPIDReuseOfRootOrOwner(t, o, who) })
		}
	}
}

func testPIDReuseOfRootOrOwner(t *testing.T, o tracer.Options, who string) {
	tr := tracertest.New(t, o)
	root, spec, cause := start(t, "setsid sleep 60 & exit"), tracer.SessionSpec{}, tracer.CauseRootExit
	dies := root
	if who == "owner" {
		dies, cause = start(t, "exit"), tracer.CauseOwnerExit
		spec.Owner.PID = dies.pid()
	}
	id := create(t, tr, root, spec)
	dies.goOn()
	dies.wait()
	other, otherID := programIn(t, tr, "bystander", "lngtest-other", fmt.Sprint(dies.pid()))
	other.goOn()
	other.until("ready")
	if e, err := tr.Lookup(dies.pid()); err != nil || e.Session != otherID {
		t.Fatalf("the PID is not the other member's: %+v, %v", e, err)
	}
	sentenced(t, tr, id)
	root.gone()
	settledBy(t, tr, id, cause)
	if s, err := tr.Session(otherID); err != nil || s.State != tracer.StateActive || s.Live != 2 {
		t.Errorf("the other session: %+v, %v", s, err)
	}
	endAll(t, tr, otherID, other)
}

// A PID is reused while a session ends (FreeBSD D40089): that the earlier process was signalled does not count for the
// new one, which dies at the deadline.
func TestPIDReuseDuringEnd(t *testing.T) { onEachSide(t, testPIDReuseDuringEnd) }

func testPIDReuseDuringEnd(t *testing.T, tr *tracer.Tracer) {
	path, err := filepath.Abs("../bin/testdata/lngtest-bystander")
	require.NoError(t, err)
	w, id := startIn(t, tr, `sleep 60 & p=$!; trap "" TERM; echo $p; wait $p; exec `+path+` lngtest-late $p`)
	w.goOn()
	pid := parse(t, w.line())
	old := identify(t, tr, pid)
	require.NoError(t, tr.End(id, tracer.CauseEnd, time.Hour))
	sentence(t, tr)
	w.until("ready")
	late, err := tr.Lookup(pid)
	if err != nil || late.Session != id || late.Start <= old.Start || late.Flags&tracer.FlagTermed != 0 {
		t.Fatalf("%+v is not a new member with the PID of %v: %v", late, old, err)
	}
	endAll(t, tr, id, w)
}

// zombie reports whether the process has died and waits to be reaped.
func zombie(t *testing.T, tr *tracer.Tracer, pid uint32) (dead bool) {
	t.Helper()
	err := tr.Snapshot(0, func(p *tracer.Process) error {
		dead = dead || p.PID == pid && p.Dead
		return nil
	})
	require.NoError(t, err)
	return dead
}
