//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A record of the snapshot with the entry of an earlier process shows nothing of that entry.
func TestStaleEntrySeen(t *testing.T) {
	now, earlier := tracer.Identity{PID: 100, Start: 9}, tracer.Identity{PID: 100, Start: 7}
	if p := tracer.Seen(now, earlier, 5); p.Session != 0 || p.Flags != 0 || p.Identity != now {
		t.Errorf("%+v", p)
	}
	if p := tracer.Seen(now, now, 5); p.Session != 5 || p.Flags == 0 {
		t.Errorf("%+v", p)
	}
}

// An entry whose death is being counted names no process.
func TestEntryBeingBuried(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{})
	const none = 1 << 22 // above every PID
	require.NoError(t, tr.BuryHalf(none))
	if e, err := tr.Lookup(none); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("%+v, %v", e, err)
	}
}

// A process without an entry gets no signal at level 2, although its pidfd could be opened:
// it may be another one than the member that was seen. Nor is one killed that has the PID of another without an entry.
func TestNoSignalWithoutEntry(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Level: 2})
	w := start(t, "exit")
	self := identify(t, tr, w.pid())
	other := tracer.Identity{PID: self.PID, Start: self.Start - 1}
	for _, err := range []error{tr.Signal(self, unix.SIGKILL), tr.KillOne(other)} {
		if !errors.Is(err, tracer.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
	w.goOn()
	if status := w.wait(); !status.Exited() {
		t.Errorf("it was killed: %v", status)
	}
}

// TestDemand: at level 2 a member gets what the sessions around it ask for, and nothing if that was sent, or if it is protected, or
// dead, or came after the end had begun.
func TestDemand(t *testing.T) {
	for _, c := range []struct {
		p     tracer.Process
		outer tracer.SessionInfo
		want  unix.Signal
	}{
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateActive}, 0},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateEnding}, unix.SIGTERM},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateCondemned}, unix.SIGKILL},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateDissolved}, 0},
		{tracer.Process{Dead: true}, tracer.SessionInfo{State: tracer.StateCondemned}, 0},
		{tracer.Process{Killed: true}, tracer.SessionInfo{State: tracer.StateCondemned}, 0},
		{tracer.Process{Flags: tracer.FlagProtected}, tracer.SessionInfo{State: tracer.StateCondemned}, 0},
		{tracer.Process{Flags: tracer.FlagTermed}, tracer.SessionInfo{State: tracer.StateEnding}, 0},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateEnding, EndedAt: 9}, 0},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateEnding, EndedAt: 10}, unix.SIGTERM},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateEnding, Paused: 1}, unix.SIGKILL},
		{tracer.Process{}, tracer.SessionInfo{State: tracer.StateActive, Paused: 1}, unix.SIGSTOP},
		{tracer.Process{Stops: true}, tracer.SessionInfo{State: tracer.StateActive, Paused: 1}, 0},
		{tracer.Process{Flags: tracer.FlagStopped}, tracer.SessionInfo{State: tracer.StateActive}, unix.SIGCONT},
	} {
		c.p.Session, c.p.Since, c.outer.ID = 3, 10, 1
		got := tracer.Demand(&c.p, map[tracer.SessionID]*tracer.SessionInfo{
			1: &c.outer, 2: {ID: 2, Parent: 1, State: tracer.StateActive}, 3: {ID: 3, Parent: 2, State: tracer.StateActive},
		})
		if got != c.want {
			t.Errorf("%+v in %+v: %v, want %v", c.p, c.outer, got, c.want)
		}
	}
}

// Only a directory of pins that is root's proves that a process is a member, and only of the
// process that its entry names.
func TestMemberships(t *testing.T) {
	// Under the name of an instance, in the tests' own bpffs.
	dir := filepath.Join(filepath.Dir(tracertest.Dir(t)), "lineage-lngtest")
	t.Cleanup(func() {
		require.NoError(t, tracer.Unload(dir))
	})
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	w, id := startIn(t, tr, "read never")
	self := identify(t, tr, w.pid())
	other := filepath.Join(filepath.Dir(dir), "lineage-asks") // need not exist
	in := func(p tracer.Identity) bool {
		t.Helper()
		all, err := tracer.Memberships(other, p)
		require.NoError(t, err)
		return slices.Contains(all, dir)
	}
	if !in(self) {
		t.Error("its membership is not found")
	}
	if in(tracer.Identity{PID: self.PID, Start: self.Start + 1}) {
		t.Error("another process with the PID is a member")
	}
	require.NoError(t, os.Chown(dir, 1000, -1))
	if in(self) {
		t.Error("a directory of another user is believed")
	}
	require.NoError(t, os.Chown(dir, 0, -1))
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	w.wait()
}

// At level 2 a stopped member acts on SIGTERM, too.
func TestGraceOfTheStopped(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Level: 2})
	w, id := startIn(t, tr, `trap "echo term; exit" TERM; echo up; kill -STOP $$; read never`)
	w.goOn()
	w.until("up")
	until(t, "it is stopped", func() bool {
		stat, err := procfs.FS("/proc").Stat(w.pid())
		return err == nil && stat.State == 'T'
	})
	require.NoError(t, tr.End(id, tracer.CauseEnd, patience))
	w.until("term")
	w.wait()
	settled(t, tr, id)
}
