//go:build linux

package registry

import (
	"errors"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestNotMet: a root that a walk did not meet is dead only if the kernel has no entry of it, or
// another process has its PID.
func TestNotMet(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	root := s.info.Root
	var c census
	c.begin([]tracer.SessionInfo{s.info})
	if c.died(k, root) {
		t.Error("the kernel has its entry: dead")
	}
	if !c.died(k, tracer.Identity{PID: root.PID, Start: root.Start + 1}) {
		t.Error("another process has its PID: alive")
	}
	k.Exit(100, 0)
	if !c.died(k, root) {
		t.Error("the kernel has no entry: alive")
	}
	c.met[root] = true
	if c.died(k, root) {
		t.Error("the walk met it: dead")
	}
}

// TestPressing: on a quiet host there is a look each period where only a look shows that an end
// is due: below level 3, while a session ends, once a lifetime is over, and while a reader watches.
func TestPressing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Registry, *Session)
		level  int
		want   Want
	}{
		"quiet":              {func(*Registry, *Session) {}, 4, WantSome},
		"level 3":            {func(*Registry, *Session) {}, 3, WantSome},
		"level 2":            {func(*Registry, *Session) {}, 2, WantEach},
		"ending":             {func(_ *Registry, s *Session) { s.info.State = tracer.StateEnding }, 4, WantEach},
		"condemned":          {func(_ *Registry, s *Session) { s.info.State = tracer.StateCondemned }, 4, WantEach},
		"over":               {func(_ *Registry, s *Session) { s.info.State, s.closed = tracer.StateEmpty, true }, 4, WantSome},
		"a lifetime is over": {func(_ *Registry, s *Session) { s.info.Expires = 1 }, 4, WantEach},
		"a lifetime":         {func(_ *Registry, s *Session) { s.info.Expires = 1 << 62 }, 4, WantSome},
		"watched":            {func(o *Registry, _ *Session) { o.looks.watched = true }, 4, WantEach},
	} {
		o, k := newRegistry(t)
		k.Advance(10)
		s := session(t, o, k, 100)
		k.Feature.Level = c.level
		c.change(o, s)
		if got := o.looks.pressing(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestDoubtsAreBounded: changes that no event reported are published up to a bound; the rest is reported
// as lost.
func TestDoubtsAreBounded(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	var lost uint64
	o.Attach(&Hooks{Published: func(_ View, events []tracer.Event) {
		for i := range events {
			if events[i].Type == tracer.EventLost {
				lost += events[i].Count
			}
		}
	}})
	changes := make([]lineage.Change, maxDoubts+3)
	for i := range changes {
		changes[i] = lineage.Change{Kind: lineage.Found, ID: lineage.ID{PID: uint32(i + 1), Start: 1}, Session: s.info.ID}
	}
	o.looks.repaired(&Resync{}, 10, changes)
	require.Equal(t, len(o.doubts.all), maxDoubts)
	if o.looks.settleDoubts(); lost != 3 {
		t.Errorf("%d reported as lost", lost)
	}
}

// TestEndedBy: a receipt names the caller that asked for the end, unless the session ended for
// another reason; and command lines only to readers who may see them, before and after the verdict.
func TestEndedBy(t *testing.T) {
	for cause, named := range map[tracer.Cause]bool{tracer.CauseEnd: true, tracer.CauseHalt: true, tracer.CauseMaxLifetime: false} {
		o, k := newRegistry(t)
		s := session(t, o, k, 100)
		Tx{o.view()}.asked(s, &api.Caller{UID: 5}, nil)
		s.info.State, s.info.Cause, s.info.EndedAt = tracer.StateEnding, cause, 1
		s.receipt.Died(api.Outcome{Ref: document.Ref(s.info.Root), Comm: "lngtest-root", Argv: []string{"lngtest-root", "--token=x"}}, 0, func(int) bool { return true })
		check := func(when string) {
			t.Helper()
			if r := o.view().Report(s, access.Caller{}); (r.EndedBy != nil) != named {
				t.Errorf("%s, %v: ended by %+v", when, cause, r.EndedBy)
			}
			if r := o.view().Report(s, access.Caller{UID: 1001, Group: true}); len(r.Processes) != 1 || len(r.Processes[0].Argv) > 1 && r.Processes[0].Argv[1] == "--token=x" {
				t.Errorf("%s: a reader of another uid gets %+v", when, r.Processes)
			}
		}
		check("not over")
		over(o, s)
		check("over")
	}
}

// TestOwed: what a look out of turn was for, but that failed, the next one finds, also without a live session.
func TestOwed(t *testing.T) {
	o, k := newRegistry(t)
	runs(t, o)
	_, err := o.Resync(CauseStart)
	require.NoError(t, err)
	id := unheard(t, k, 100)
	k.Fail("Snapshot", errors.New("refused"))
	if _, err := o.Resync(CauseLost); err == nil {
		t.Fatal("a look without the task list")
	}
	k.Fail("Snapshot", nil)
	_, err = o.looks.sample(CauseNone, true)
	require.NoError(t, err)
	require.NoError(t, o.Read(func(v View) {
		if v.Session(id) == nil {
			t.Error("the session of which an event was lost is not held")
		}
	}))
}
