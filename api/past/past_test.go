package past

import (
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

var (
	shell, child, server = api.Ref{PID: 10, StartNS: 100}, api.Ref{PID: 9, StartNS: 200}, api.Ref{PID: 8, StartNS: 300}
	noon                 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// TestCreator: a process has no creator that is not known, that is itself, or that is younger.
func TestCreator(t *testing.T) {
	all := Processes{shell: {Ref: shell}, server: {Ref: server}}
	for creator, known := range map[*api.Ref]bool{nil: false, &shell: true, &child: false, &server: false, new(api.Ref{PID: 1}): false} {
		if c := all.Creator(&api.Process{Ref: child, Creator: creator}); (c != nil) != known {
			t.Errorf("%v: %+v", creator, c)
		}
	}
}

// TestSorted: processes are in the order of their starts, and of their PIDs.
func TestSorted(t *testing.T) {
	second := api.Ref{PID: 11, StartNS: 100}
	var got []api.Ref
	for _, p := range (Processes{server: {Ref: server}, second: {Ref: second}, child: {Ref: child}, shell: {Ref: shell}}).Sorted() {
		got = append(got, p.Ref)
	}
	if want := []api.Ref{shell, second, child, server}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAdvance: a session keeps its name, its reason and when it ended.
func TestAdvance(t *testing.T) {
	s := &api.Session{}
	later := noon.Add(time.Second)
	for _, ev := range []api.Event{
		{State: api.StateActive, Name: "build"}, {State: api.StateEnding, Reason: "end"}, {State: api.StateEnded, Time: &noon}, {State: api.StateEnded, Time: &later},
	} {
		Advance(s, &ev)
	}
	if s.Name != "build" || s.State != api.StateEnded || s.EndReason != "end" || *s.Ended != noon {
		t.Errorf("%+v", s)
	}
}
