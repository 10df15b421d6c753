package follow

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestIDs: receivers recognise a repeated record by its id, even from another version
// of the exporter. So ids must not change.
func TestIDs(t *testing.T) {
	ref := api.Ref{PID: 42, StartNS: 1234567890123}
	e := &api.Event{Type: "listen", Seq: 7, TimeNS: 99, Time: new(time.Now()), Session: "aaaaaa", Process: &api.Process{Ref: ref},
		Port: &api.Port{Proto: "tcp", Addr: "::", Port: 80}}
	for got, want := range map[string]string{
		sessionTrace("host", "boot", "aaaaaa").String(): "9735f352af6b3fe1bec157b6e3e98a38",
		sessionSpan("host", "boot", "aaaaaa").String():  "75ae84b8f35bb0d0",
		processSpan("host", "boot", ref).String():       "df3d7a123ef708b9",
		eventID("host", "boot", api.EventListen, e):     "b89d223acd3b888f4e406da4774650fa",
	} {
		require.Equal(t, got, want)
	}
	seq := *e
	seq.Seq = 0 // of an earlier boot
	if eventID("host", "boot", api.EventListen, &seq) != eventID("host", "boot", api.EventListen, e) {
		t.Error("the id depends on the sequence number")
	}
	for what, change := range map[string]func(*api.Event){
		"time": func(e *api.Event) { e.TimeNS++ }, "session": func(e *api.Event) { e.Session = "bbbbbb" },
		"process": func(e *api.Event) { e.Process = &api.Process{Ref: api.Ref{PID: 43}} }, "port": func(e *api.Event) {
			e.Port = &api.Port{Proto: "tcp",
				Addr: "::", Port: 81}
		},
		"loss": func(e *api.Event) { e.LostFrom = 1 }, "state": func(e *api.Event) { e.State = api.StateEnded },
	} {
		other := *e
		change(&other)
		if eventID("host", "boot", api.EventListen, &other) == eventID("host", "boot", api.EventListen, e) {
			t.Errorf("another %s has the same id", what)
		}
	}
	if DerivedID("ab", "c") == DerivedID("a", "bc") {
		t.Error("words run into each other")
	}
}

// TestTexts: ids are read back as they were written.
func TestTexts(t *testing.T) {
	id := sessionTrace("h", "b", "s")
	var back TraceID
	if err := back.UnmarshalText([]byte(id.String())); err != nil || back != id {
		t.Error(back, err)
	}
	for _, bad := range []string{"", "00", "zz" + id.String()[2:], id.String() + "00"} {
		if back.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is read as an id", bad)
		}
	}
}
