//go:build linux

package history

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// A port is found in the time between its two events, and is removed with the session that is
// pruned.
func TestListeners(t *testing.T) {
	path := journalHistory(t)
	now := noon
	j := OpenJournal(path, JournalOptions{Boot: "b1", MaxAge: 24 * time.Hour, Now: func() time.Time { return now }})
	t.Cleanup(j.Close)
	listens := func(kind tracer.EventType, pid uint32, at, since time.Duration) Record {
		return Record{Seq: 1000 + uint64(at), Event: tracer.Event{
			Type: kind, Time: uint64(at), Since: uint64(since), Session: 51, Process: tracer.Identity{PID: pid, Start: 1},
			Address: netip.MustParseAddrPort("[::1]:8080"),
		}}
	}
	unnumbered := listens(tracer.EventListen, 3, time.Second, time.Second)
	unnumbered.Address = netip.MustParseAddrPort("[::1]:0") // the kernel chose the number later
	live := session(51, time.Time{})
	write(t, j, Batch{Sessions: []Session{live}, Zero: noon, Events: []Record{
		listens(tracer.EventListen, 1, time.Second, time.Second), listens(tracer.EventListen, 2, 2*time.Second, 2*time.Second),
		listens(tracer.EventUnlisten, 1, 3*time.Second, time.Second), unnumbered,
	}})
	at := func(what string, d time.Duration, want ...uint32) {
		t.Helper()
		all, err := j.Listeners(t.Context(), 8080, noon.Add(d))
		var got []uint32
		for _, l := range all {
			got = append(got, l.Process.PID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: PIDs %v, want %v: %v", what, got, want, err)
		}
	}
	at("before", time.Second-1)
	at("the first", time.Second, 1)
	at("both", 2*time.Second, 2, 1)
	at("the first is closed", 3*time.Second+1, 2)
	at("nobody told of the end", time.Hour, 2)
	live.Ended = noon.Add(time.Minute)
	write(t, j, Batch{Sessions: []Session{live}})
	at("the session is over", time.Hour)
	at("before that", 50*time.Second, 2)
	for _, port := range []uint16{8081, 0} {
		if all, err := j.Listeners(t.Context(), port, noon.Add(time.Second)); err != nil || len(all) != 0 {
			t.Errorf("port %d: %v %v", port, all, err)
		}
	}
	now = noon.Add(1000 * time.Hour)
	write(t, j, Batch{Sessions: []Session{session(52, now)}})
	at("pruned", 2*time.Second)
	if st := j.Stats(); st.Aside != 0 || st.Damaged != 0 {
		t.Errorf("%+v", st)
	}
}
