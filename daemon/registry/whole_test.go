//go:build linux

package registry_test

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestWhole: each event of a batch has the process as it was after that event, whatever the next ones of the
// batch change.
func TestWhole(t *testing.T) {
	f := registrytest.New(t)
	var got []tracer.Event
	f.R.Attach(&registry.Hooks{Published: func(_ registry.View, events []tracer.Event) { got = append(got, slices.Clone(events)...) }})
	f.Run()
	s := f.Session(100, 1000)
	root, id := f.K.Proc(100).Identity, tracer.Identity{PID: 101, Start: f.K.Proc(100).Start + 1}
	at := func(n uint64, kind tracer.EventType, ev tracer.Event) tracer.Event {
		ev.Type, ev.Time, ev.Process, ev.Session = kind, id.Start+n, id, s.ID()
		return ev
	}
	exec := func(n uint64, exe string, uid uint32) tracer.Event {
		return at(n, tracer.EventExec, tracer.Event{Filename: []byte(exe), Argv: []byte(exe + "\x00"), Looks: lineage.Looks{Comm: lineage.CommOf(exe), UID: uid}})
	}
	claim := &lineage.Claim{Trace: lineage.Trace{ID: [16]byte{1}}}
	sender := &lineage.Signal{Number: 9, Sender: lineage.ByProcess}
	f.Update(func(tx registry.Tx) {
		got = nil
		tx.Apply([]tracer.Event{
			at(0, tracer.EventBirth, tracer.Event{Evidence: tracer.EvidenceFork, Creator: root, Parent: root, Looks: lineage.Looks{UID: 1}}),
			exec(1, "a", 1),
			at(2, tracer.EventListen, tracer.Event{}),
			exec(3, "b", 2),
			at(4, tracer.EventMark, tracer.Event{Call: &lineage.Call{ID: "x"}}),
			at(5, tracer.EventTrace, tracer.Event{Claim: claim}),
			at(6, tracer.EventReparent, tracer.Event{From: root, Parent: tracer.Identity{PID: 1, Start: 1}}),
			at(7, tracer.EventExit, tracer.Event{ExitStatus: 9, CPUTime: 5, Signal: sender}),
			at(8, tracer.EventReaped, tracer.Event{}),
		})
	})
	type state struct {
		runs, was   string
		uid, before uint32
		parent      uint32
		claim       *lineage.Claim
		exited      uint64
		status      uint32
		signal      *lineage.Signal
	}
	var states []state
	for _, ev := range got {
		if ev.Creator != root || ev.Evidence != tracer.EvidenceFork || ev.Filename != nil || ev.Argv != nil {
			t.Errorf("%d: created by %v, %v, %q", ev.Type, ev.Creator, ev.Evidence, ev.Argv)
		}
		x := state{uid: ev.UID, before: ev.WasUID, parent: ev.Parent.PID, claim: ev.Claim, status: ev.ExitStatus, signal: ev.Signal}
		if ev.Exited != 0 {
			x.exited = ev.Exited - id.Start
		}
		if ev.Image != nil {
			x.runs = ev.Image.Exe
		}
		if ev.Was != nil {
			x.was = ev.Was.Exe
		}
		states = append(states, x)
	}
	want := []state{
		{uid: 1, parent: 100}, {runs: "a", uid: 1, before: 1, parent: 100}, {runs: "a", uid: 1, parent: 100},
		{runs: "b", was: "a", uid: 2, before: 1, parent: 100}, {runs: "b", uid: 2, parent: 100}, {runs: "b", uid: 2, parent: 100, claim: claim},
		{runs: "b", uid: 2, parent: 1, claim: claim}, {runs: "b", uid: 2, parent: 1, claim: claim, exited: 7, status: 9, signal: sender},
		{runs: "b", uid: 2, parent: 1, claim: claim, exited: 7, status: 9, signal: sender},
	}
	if !slices.Equal(states, want) {
		t.Errorf("got\n%+v\nwant\n%+v", states, want)
	}
	require.Equal(t, got[3].Before, id.Start+1)
	require.Equal(t, got[4].Call.ID, "x")
}
