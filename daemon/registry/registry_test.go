//go:build linux

package registry

import (
	"errors"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestDoubtsThatSettle: what a look found and an event reported later is not reported twice.
func TestDoubtsThatSettle(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	reported := 0
	o.Attach(&Hooks{Published: func(_ View, events []tracer.Event) { reported += len(events) }})
	birth := tracer.Event{
		Type: tracer.EventBirth, Time: 1, Process: tracer.Identity{PID: 101, Start: 7}, Session: s.info.ID,
		Evidence: tracer.EvidenceFork, Creator: s.info.Root,
	}
	o.looks.repaired(&Resync{}, 10, o.graph.Resync(10, []lineage.Seen{{
		ID: birth.Process, Session: birth.Session, Evidence: lineage.Fork, Creator: birth.Creator,
	}}))
	require.Equal(t, len(o.doubts.all), 1)
	ev := eventOf(&birth)
	o.graph.Apply(&ev)
	if o.looks.settleDoubts(); reported != 0 {
		t.Errorf("%d events", reported)
	}
}

// TestMissesBeforeTheStart: the next daemon looks for what the kernel skipped while no
// daemon ran.
func TestMissesBeforeTheStart(t *testing.T) {
	skipped := map[string]uint64{"fork_birth": 1}
	for _, tt := range []struct {
		name             string
		misses, counters map[string]uint64
		level            int
		twice, reconcile bool
	}{
		{"nothing", nil, map[string]uint64{}, 4, false, false},
		{"a birth", skipped, map[string]uint64{}, 4, false, true},
		{"a birth that was seen twice", skipped, map[string]uint64{}, 4, true, false},
		{"an entry that could not go", nil, map[string]uint64{"delete_failed": 1}, 4, true, true},
		{"a child without room that was killed", nil, map[string]uint64{"enter_failed": 1}, 3, false, false},
		{"a child without room", nil, map[string]uint64{"enter_failed": 1}, 2, true, true},
	} {
		p := &sampler{}
		if _, reconcile := p.grown(tt.misses, tt.counters, tracer.Features{Level: tt.level, SecondWriters: tt.twice}); reconcile != tt.reconcile {
			t.Errorf("%s: reconcile %v", tt.name, reconcile)
		}
		if cause, reconcile := p.grown(tt.misses, tt.counters, tracer.Features{Level: tt.level, SecondWriters: tt.twice}); cause != CauseNone || reconcile {
			t.Errorf("%s, nothing new: %q, reconcile %v", tt.name, cause, reconcile)
		}
	}
}

// A session is dissolved during a look at the kernel that still has it.
func TestLetGoInALook(t *testing.T) {
	for name, held := range map[string]bool{"held": true, "not held yet": false} {
		t.Run(name, func(t *testing.T) {
			o, k := newRegistry(t)
			id := unheard(t, k, 300)
			seen, err := k.Sessions()
			if err != nil || len(seen) != 1 {
				t.Fatal(err, seen)
			}
			if held {
				o.sessionOf(id)
			}
			_, err = k.Dissolve(id)
			require.NoError(t, err)
			Tx{o.view()}.LetGo(id)
			if o.known(seen); len(o.sessions) != 0 {
				t.Errorf("sessions %+v", o.sessions)
			}
		})
	}
}

// TestOlderRecord: a look that began before a session ended does not take away why it did.
func TestOlderRecord(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	older := s.info
	for _, state := range []tracer.State{tracer.StateEnding, tracer.StateEmpty} {
		o.sessionEvent(s, &tracer.Event{Type: tracer.EventSession, Session: older.ID, State: state, Cause: tracer.CauseRootExit, Time: 7})
		o.known([]tracer.SessionInfo{older})
		if s.info.State != state || s.info.Cause != tracer.CauseRootExit || s.info.EndedAt != 7 {
			t.Errorf("%v: %+v", state, s.info)
		}
	}
}

// TestLateEmptyEvent: on a busy host the exits and the kernel's event that a session is
// empty are far behind the verdict. While events come in, the receipt waits for them,
// up to lagPatience.
func TestLateEmptyEvent(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	verdict := func(after time.Duration, others int) bool {
		k.Advance(after)
		o.apply(make([]tracer.Event, others))
		s.info.State, s.result = tracer.StateEmpty, &enforcer.Result{Session: s.info.ID, Verdict: api.VerdictClean}
		o.conclude(s)
		return s.closed
	}
	for spent := time.Duration(0); spent < lagPatience-emptyPatience; spent += emptyPatience {
		if verdict(emptyPatience, 1) {
			t.Fatalf("a receipt after %v, while events came in", spent)
		}
	}
	if verdict(emptyPatience-1, 0) {
		t.Fatal("a receipt before the patience was over")
	}
	if !verdict(emptyPatience, 0) {
		t.Error("no receipt when nothing came in any more")
	}
}

// TestIDsAreNotTakenTwice: the part of an id that users see names one live or
// remembered session.
func TestIDsAreNotTakenTwice(t *testing.T) {
	o, k := newRegistry(t)
	first := session(t, o, k, 100)
	next := (first.info.ID & (1<<32 - 1)) + 1 // the slot of the next one
	seen := tracer.SessionID(uint64(next)*2654435761%(1<<30)) << 32
	o.sessions[seen|77] = &Session{info: tracer.SessionInfo{ID: seen | 77, UID: 1000, Name: "over"}, over: make(chan struct{}), closed: true}
	if s := session(t, o, k, 101); s.info.ID.String() == seen.String() {
		t.Errorf("%s is that of another session", s.info.ID)
	}
}

// TestSessionsOfAllAreLimited: the last slots are for root.
func TestSessionsOfAllAreLimited(t *testing.T) {
	o, k := newRegistry(t)
	for id := tracer.SessionID(1 << 40); id < 1<<40+maxSessions-1; id++ {
		o.sessions[id] = &Session{info: tracer.SessionInfo{ID: id}, over: make(chan struct{})}
	}
	ask := func(uid, pid uint32) error {
		k.Add(pid, 1, "lngtest-root")
		_, err := Tx{o.view()}.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity, UID: uid})
		return err
	}
	require.NoError(t, ask(1000, 100))
	if e, ok := errors.AsType[*api.Error](ask(1001, 101)); !ok || e.Code != api.CodeTooMany {
		t.Errorf("one more: %v", e)
	}
	if err := ask(0, 102); err != nil {
		t.Errorf("root: %v", err)
	}
}
