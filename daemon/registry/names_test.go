//go:build linux

package registry

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestNames: what keeps a session from the name of another one, and for how long.
func TestNames(t *testing.T) {
	state := func(s tracer.State) func(*Registry, *Session) {
		return func(_ *Registry, x *Session) { x.info.State = s }
	}
	ended := func(v api.Verdict) func(*Registry, *Session) {
		return func(o *Registry, x *Session) {
			x.info.State, x.info.EndedAt, x.emptyAt = tracer.StateEmpty, 1, 1
			x.result = &enforcer.Result{Session: x.info.ID, Verdict: v, Why: "lngtest-why"}
			o.conclude(x)
		}
	}
	works := func(o *Registry, x *Session) {
		ended(api.VerdictClean)(o, x)
		o.enter(tracer.SessionInfo{ID: 77 << 32, For: x.info.ID, State: tracer.StateActive})
	}
	stuck := func(_ *Registry, x *Session) { x.report = &api.Report{Verdict: "left", VerdictWhy: "1 state D"} }
	queued := func(o *Registry, x *Session) {
		ended(api.VerdictClean)(o, x)
		_, err := Tx{o.view()}.Queue(&tracer.SessionSpec{UID: 1000, Name: "x"})
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		becomes   func(*Registry, *Session) // of session ID, of uid 1000
		uid       uint32
		exclusive bool
		root      uint32
		says      string // "": it may begin
		ends      bool   // the wait for it has an end
	}{
		"live":              {state(tracer.StateActive), 1000, false, 101, "in use by ID (active)", true},
		"dying":             {state(tracer.StateCondemned), 1000, true, 101, "in use by ID (condemned)", true},
		"left":              {stuck, 1000, true, 101, "in use by ID (left: 1 state D)", false},
		"another user's":    {state(tracer.StateActive), 1001, true, 101, "", false},
		"around it":         {state(tracer.StateActive), 1001, true, 100, "in use by ID, which", false},
		"clean":             {ended(api.VerdictClean), 1000, true, 101, "", false},
		"unknown":           {ended(api.VerdictUnknown), 1000, true, 101, "that ID is empty: lngtest-why", false},
		"unknown, allowed":  {ended(api.VerdictUnknown), 1000, false, 101, "", false},
		"its work":          {works, 1000, true, 101, "(active) holds work of ID", true},
		"its work, allowed": {works, 1000, false, 101, "", false},
		"a queue":           {queued, 1000, false, 101, "reserved; 1 wait for it", true},
		"another's queue":   {queued, 1001, true, 101, "", false},
	} {
		o, k := newRegistry(t)
		k.Add(100, 1, "lngtest-root")
		k.Add(101, 1, "lngtest-next")
		x, err := Tx{o.view()}.Create(tracer.SessionSpec{Root: k.Proc(100).Identity, UID: 1000, Name: "x"})
		require.NoError(t, err)
		c.becomes(o, x)
		next := tracer.SessionSpec{Root: k.Proc(c.root).Identity, Name: "x", UID: c.uid}
		if c.exclusive {
			_, err := Tx{o.view()}.Queue(&next)
			require.NoError(t, err)
		}
		got := Tx{o.view()}.obstacle(&next, o.around(&next))
		if got == nil {
			got = &Obstacle{Err: &api.Error{}}
		}
		says := strings.ReplaceAll(c.says, "ID", x.info.ID.String())
		said := got.Err.Message
		if (says == "") != (said == "") || !strings.Contains(said, says) || (got.Until != nil) != c.ends {
			t.Errorf("%s: %+v, want %q", name, got, says)
		}
	}
}

// TestQueueIsBounded: a user whose requests wait takes the bound, and not the places of another one.
func TestQueueIsBounded(t *testing.T) {
	o, _ := newRegistry(t)
	tx := Tx{o.view()}
	for n := range maxPlaces/placeSize + 1 {
		_, err := tx.Queue(&tracer.SessionSpec{UID: 1000, Name: "x"})
		require.Equal(t, err == nil, n < maxPlaces/placeSize)
	}
	_, err := tx.Queue(&tracer.SessionSpec{UID: 1001, Name: "x"})
	require.NoError(t, err)
	tx.Leave(o.queue[0])
	require.Equal(t, len(o.queue), maxPlaces/placeSize)
}
