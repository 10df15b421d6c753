//go:build linux

package registry_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// unheard makes the events of f lost.
func unheard(w *daemontest.Daemon, f func()) {
	w.Helper()
	w.K.AllRead()
	w.Hold(func() {
		f()
		w.K.DropEvents()
	})
}

// TestReconciledEvents: lost changes are reported as reconciled, with a mark where the
// gap is, and a reader that only read events has the kernel's picture.
func TestReconciledEvents(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{})
	w.K.Fork(100, 101, "lngtest-a")
	l := w.Events("user", "?snapshot=1")
	l.Want("recording", "session active", "process 100", "process 101")
	unheard(w, func() {
		w.K.Fork(101, 102, "lngtest-b")
		w.K.Exit(101, 0) // reaped, and 102 is PID 1's
	})
	w.K.Lose(5)
	seen := map[string]*api.Event{}
	for range 4 {
		ev := l.Next()
		if ev == nil {
			t.Fatalf("the stream ended after %v", seen)
		}
		what := string(ev.Type)
		if ev.Process != nil {
			what = fmt.Sprintf("%s %d", ev.Type, ev.Process.PID)
			if e := ev.Process.Evidence; e == nil || e.Kind != "reconciled" || e.Source != "iterator" || e.Confidence != "strong" {
				t.Errorf("%s: evidence %+v", what, e)
			}
		}
		seen[what] = ev
	}
	if ev := seen["lost"]; ev == nil || ev.Count != 5 || ev.Where != "ring" || ev.UntilNS == 0 {
		t.Errorf("gap: %+v", ev)
	}
	if ev := seen["fork 102"]; ev == nil || ev.Process.Creator == nil || ev.Process.Creator.PID != 101 || ev.Process.Comm != "lngtest-b" {
		t.Errorf("fork: %+v of %v", ev, seen)
	}
	if ev := seen["exit 101"]; ev == nil || ev.Process.ExitCode != nil || ev.Process.Signal != "" {
		t.Errorf("exit: %+v of %v", ev, seen)
	}
	if seen["reaped 101"] == nil {
		t.Errorf("no reaped of %v", seen)
	}
	w.K.Exec(102, "/bin/a", "a\x00")
	l.Want("exec 102") // and nothing else before it
}

// TestResyncCauses: each way in which the picture may be wrong brings a look,
// and is counted by its cause.
func TestResyncCauses(t *testing.T) {
	w := daemontest.New(t)
	for _, tt := range []struct {
		cause registry.Cause
		grow  func()
		ask   registry.Cause
	}{
		{registry.CauseNone, func() {}, registry.CauseNone},
		{registry.CauseMisses, func() { w.K.Miss("fork_birth") }, registry.CauseNone},
		{registry.CauseBirths, func() { w.K.Count("missed_births", 1) }, registry.CauseNone},
		{registry.CauseBirths, func() { w.K.Count("missed_deaths", 1) }, registry.CauseNone},
		{registry.CauseBirths, func() { w.K.Count("delete_failed", 1) }, registry.CauseNone},
		{registry.CauseBirths, func() { w.K.Count("enter_failed", 2) }, registry.CauseNone},
		{registry.CauseLost, func() { w.K.Count("events_lost", 9) }, registry.CauseNone},
		{registry.CauseMember, func() { w.K.Count("events_lost", 1) }, registry.CauseMember},
		{registry.CauseNone, func() { w.K.Count("stale_entries", 1) }, registry.CauseNone},
	} {
		tt.grow()
		before := resyncs(w)
		r, err := w.Service.Registry.Resync(tt.ask)
		if err != nil || r.Cause != tt.cause {
			t.Errorf("cause %q, want %q: %v", r.Cause, tt.cause, err)
		}
		after := resyncs(w)
		for _, c := range registry.Causes {
			grown := uint64(0)
			if c == tt.cause {
				grown = 1
			}
			if after[c] != before[c]+grown {
				t.Errorf("%q: %d looks, before %d", c, after[c], before[c])
			}
		}
	}
	if resyncs(w)[registry.CauseStart] != 1 {
		t.Errorf("%v", resyncs(w))
	}
}

// TestMissed: what the kernel side counts degrades the daemon, and has a child without an entry searched for: one whose birth
// a skipped program may have missed, unless a second one sees what the first misses, and one without room where no hook kills it.
func TestMissed(t *testing.T) {
	skipped := func(k *kerneltest.Kernel) { k.Miss("fork_birth") }
	noRoom := func(k *kerneltest.Kernel) { k.Count("enter_failed", 1) }
	refused := func(k *kerneltest.Kernel) { k.Count("agent_refused", 1) }
	for name, c := range map[string]struct {
		level       int
		twice       bool
		count       func(*kerneltest.Kernel)
		cause       registry.Cause
		found, said bool
		what        string
	}{
		"a skipped program":       {4, false, skipped, registry.CauseMisses, true, true, "births may have been missed"},
		"one of two":              {4, true, skipped, registry.CauseMisses, false, false, "births may have been missed"},
		"no room, below level 3":  {2, false, noRoom, registry.CauseBirths, true, true, "killed if they were found, because"},
		"no room":                 {3, false, noRoom, registry.CauseBirths, false, true, "killed at birth, because"},
		"no session for an agent": {4, false, refused, registry.CauseNone, false, true, "agents started without a session"},
	} {
		t.Run(name, func(t *testing.T) {
			w := daemontest.New(t)
			w.K.Feature.Level, w.K.Feature.SecondWriters = c.level, c.twice
			w.Session("user", 100, api.NewSession{})
			w.K.Add(101, 100, "lngtest-missed")
			c.count(w.K)
			require.Equal(t, w.Resync(registry.CauseNone).Cause, c.cause)
			if found := w.K.Proc(101).Session != 0; found != c.found || w.Degraded(c.what) != c.said {
				t.Errorf("the child was found: %v, degraded %q", found, w.Status().Degraded)
			}
		})
	}
}

func resyncs(w *daemontest.Daemon) map[registry.Cause]uint64 {
	all := map[registry.Cause]uint64{}
	_ = w.Service.Registry.Read(func(v registry.View) {
		for c, n := range v.Meter().Resyncs {
			all[c] = n
		}
	})
	return all
}

// TestResyncFindings: a look tells each difference once.
func TestResyncFindings(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	for _, tt := range []struct {
		missed func()
		want   []lineage.ChangeKind
	}{
		{func() { w.K.Fork(100, 101, "lngtest-a") }, []lineage.ChangeKind{lineage.Found}},
		{func() { w.K.Exit(101, 0) }, []lineage.ChangeKind{lineage.Vanished}},
		{func() {}, nil},
	} {
		unheard(w, tt.missed)
		var got []lineage.ChangeKind
		for _, c := range w.Resync(registry.CauseMember).Changes {
			if got = append(got, c.Kind); c.ID.PID != 101 || c.Session.String() != s.ID {
				t.Errorf("%+v", c)
			}
		}
		require.Equal(t, fmt.Sprint(got), fmt.Sprint(tt.want))
	}
}

// TestRestartIsMarked: a reader of the next daemon sees that there was a restart, and
// which processes exist now.
func TestRestartIsMarked(t *testing.T) {
	w := daemontest.New(t, daemontest.WithoutHistory)
	w.Session("user", 100, api.NewSession{})
	w.Applied()
	w.Halt()
	w.K.Fork(100, 101, "lngtest-a")
	w.K.DropEvents()
	w.Start()
	l := w.Events("root", "?from=1")
	ev := l.Next()
	for ev != nil && (ev.Where == "reader" || ev.Where == "history") { // from=1 is before the daemon
		ev = l.Next()
	}
	if ev == nil || ev.Type != "lost" || ev.Where != "restart" || ev.UntilNS == 0 || ev.Count != 0 {
		t.Errorf("%+v", ev)
	}
	l.Want("fork 100", "fork 101")
}
