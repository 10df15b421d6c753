package follow

import (
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOverlooked: a session that ended without an event is closed once, when everything that
// the daemon had to send was read.
func TestOverlooked(t *testing.T) {
	ended := func(reason string, ago time.Duration) []api.Session {
		s := api.Session{ID: "aaaaaa", Name: "web", State: api.StateEnded, EndReason: reason}
		if ago != 0 {
			s.Ended = new(time.Now().Add(-ago))
		}
		return []api.Session{s}
	}
	for name, tt := range map[string]struct {
		doc   []api.Session // none: the daemon does not know it
		wants string
	}{
		"live":                     {[]api.Session{{ID: "aaaaaa", State: api.StateActive}}, ""},
		"its event may still come": {ended("end", time.Millisecond), ""},
		"its event was lost":       {ended("end", time.Minute), "end"},
		"untracked":                {ended("untracked", 0), "untracked"},
		"without a history":        {nil, "untracked"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.Has.Sessions = tt.doc
			f := looking(t, d)
			take := func(e *api.Event) {
				t.Helper()
				require.NoError(t, f.take(t.Context(), e, d.boot))
			}
			began := &api.Event{Head: api.Head{Kind: "event"}, Type: "session", Seq: 1, TimeNS: boottime(),
				Time: new(time.Now()), Session: "aaaaaa", State: api.StateActive}
			born := &api.Event{Head: api.Head{Kind: "event"}, Seq: 2, TimeNS: boottime(), Time: new(time.Now()), Session: "aaaaaa"}
			fork(10)(born)
			take(began)
			take(born)
			for range 2 { // the second time, the follower already knows it
				take(&api.Event{Head: api.Head{Kind: "heartbeat"}, TimeNS: boottime()})
			}
			got := ""
			for _, r := range f.batch[2:] {
				got += r.Event.Reason
				if r.Kind != End || r.Session.Ended == nil || r.Time.IsZero() {
					t.Errorf("%s of %+v at %v", r.Kind, r.Session, r.Time)
				}
			}
			require.Equal(t, got, tt.wants)
		})
	}
}

// looking is a follower that is connected, but does not run.
func looking(t *testing.T, d *daemon) *Follower {
	t.Helper()
	f := &Follower{Sink: &list{}, Store: &Store{}, Host: &Host{ID: "h"}, Log: zerolog.Nop()}
	var err error
	f.source, err = newSource(t.Context(), d)
	require.NoError(t, err)
	f.of(d.boot)
	return f
}

// TestNewPolicy: what the policy hides since it was loaded again is hidden here, too: root and the
// sessions' own user get whole command lines from the daemon.
func TestNewPolicy(t *testing.T) {
	d := newDaemon(t)
	f := looking(t, d)
	d.Has.Policy = hiding("quiet")
	f.look(t.Context(), f.source.client)
	if got := f.source.Redact([]string{"agent", "quiet"}); got[1] != "[redacted]" {
		t.Errorf("%q", got)
	}
}

// TestLookTwice: a leftover is reported once, and again after it was none for a while.
func TestLookTwice(t *testing.T) {
	d := newDaemon(t)
	f := looking(t, d)
	left := api.Orphan{Why: api.WhyLeftover, Process: api.Process{Ref: api.Ref{PID: 10, StartNS: 10}, Session: "aaaaaa"}}
	for i, step := range []struct {
		orphans []api.Orphan
		reports int
	}{{[]api.Orphan{left}, 1}, {[]api.Orphan{left}, 0}, {nil, 0}, {[]api.Orphan{left}, 1}} {
		f.batch = nil
		f.look(t.Context(), &apitest.Client{Has: apitest.Has{Orphans: &api.Orphans{Items: slices.Clone(step.orphans)}}})
		if len(f.batch) != step.reports {
			t.Errorf("look %d: %d reports, want %d", i, len(f.batch), step.reports)
		}
	}
}

// TestBusyCalls: what an ended call has left is reported once while it uses the CPU, and its secrets are hidden.
func TestBusyCalls(t *testing.T) {
	d := newDaemon(t)
	f := looking(t, d)
	d.Has.Policy = hiding("quiet")
	call := func(cpus float64, ago time.Duration, kept bool) *api.Orphans {
		c := api.Call{ID: "toolu_1", Tool: "Bash", Agent: &api.Ref{PID: 9, StartNS: 9}, Began: new(time.Now().Add(-time.Hour)), Ended: new(time.Now().Add(-ago))}
		if ago == 0 {
			c.Ended = nil
		}
		return &api.Orphans{Calls: []api.CallLeft{{Session: "aaaaaa", Calls: []api.Call{c}, CPUs: cpus, Kept: kept, Processes: 1,
			Commands: []api.CallCommand{{Processes: 1, Comm: "agent", Argv: []string{"agent", "quiet"}}}}}}
	}
	for i, step := range []struct {
		left    *api.Orphans
		reports int
	}{
		{call(7, 0, false), 0}, {call(7, time.Minute, false), 0}, {call(0.4, time.Hour, false), 0}, {call(7, time.Hour, true), 0},
		{call(7, time.Hour, false), 1}, {call(7, time.Hour, false), 0}, {call(0, time.Hour, false), 0}, {call(0.5, time.Hour, false), 1},
	} {
		f.batch = nil
		d.Has.Orphans = step.left
		f.look(t.Context(), f.source.client)
		if len(f.batch) != step.reports {
			t.Errorf("look %d: %d reports, want %d", i, len(f.batch), step.reports)
		}
		for _, r := range f.batch {
			if r.Kind != Busy || r.Session == nil || r.Call.Commands[0].Argv[1] != "[redacted]" {
				t.Errorf("look %d: %+v", i, r)
			}
		}
	}
}
