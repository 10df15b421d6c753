//go:build linux

package follow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// keep stores a cursor, as an exporter that ran before did.
func keep(t *testing.T, dir string, at place) {
	t.Helper()
	at.Schema = schema
	store, err := OpenStore(dir)
	if err != nil || store.writeCursor("list", &at) != nil {
		t.Fatal(err)
	}
	store.Close()
}

// earlier makes events of the boot before, some milliseconds after then.
func earlier(then time.Time) func(ms int, change func(*api.Event)) api.Event {
	return func(ms int, change func(*api.Event)) api.Event {
		after := time.Duration(ms) * time.Millisecond
		e := api.Event{Head: api.Head{Kind: "event"}, BootID: "before", TimeNS: api.U64(after), Time: new(then.Add(after)), Session: "aaaaaa"}
		change(&e)
		return e
	}
}

// TestReboot: the history of an earlier boot arrives. Its events are not always in the order of their times: what a
// walk found is reported later.
func TestReboot(t *testing.T) {
	then := time.Now().Add(-time.Hour)
	early := earlier(then)
	for want, past := range map[string][]api.Event{
		"true 12 false 13": {early(1000, fork(10)), early(2000, exit(10)), early(3000, fork(11)), early(4000, fork(12)), early(5000, exit(12))},
		"true 11 true 12 false 13": {early(1500, fork(10)), early(2000, exit(10)), early(3000, fork(11)),
			early(3900, fork(12)), early(3500, exit(11)), early(3950, exit(12))},
	} {
		d, l, dir := newDaemon(t), &list{}, t.TempDir()
		d.past = past
		keep(t, dir, place{Boot: "before", TimeNS: 2e9 + 1e8, Time: then.Add(2 * time.Second)})
		d.add(fork(13), exit(13))
		_, stop := follower(t, d, l, dir)
		require.Eventually(t, "records", func() bool { p := l.pids(); return len(p) > 0 && p[len(p)-1] == 13 })
		stop()
		var ends []string
		for _, r := range l.records {
			if r.Kind == api.EventExit {
				ends = append(ends, fmt.Sprint(r.Boot == "before", r.Process().PID))
			}
		}
		require.Equal(t, strings.Join(ends, " "), want)
	}
}

// TestSilentEnds: sessions that ended while the exporter was away, and without an event, end once: at a reboot,
// without a daemon, or when the event was lost. Those whose events were delivered do not end again.
func TestSilentEnds(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	d.beats = true
	then := time.Now().Add(-time.Hour)
	ended := func(id, reason string) api.Session {
		return api.Session{ID: id, State: api.StateEnded, EndReason: reason, Ended: new(then.Add(time.Minute))}
	}
	d.Has.Sessions = append(d.Has.Sessions, ended("bbbbbb", "reboot"), ended("cccccc", "untracked"), ended("dddddd", "end"), ended("eeeeee", "end"))
	d.past = []api.Event{earlier(then)(3000, func(e *api.Event) { e.Type, e.Session, e.State, e.Reason = "session", "dddddd", api.StateEnded, "end" })}
	keep(t, dir, place{Boot: "before", TimeNS: 2e9, Time: then})
	_, stop := follower(t, d, l, dir)
	require.Eventually(t, "ends", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.records) >= 3 })
	stop()
	d.add(fork(13), exit(13))
	follower(t, d, l, dir)
	require.Eventually(t, "exit", func() bool { return len(l.pids()) == 1 })
	once(t, l)
	got := ""
	for _, r := range l.records {
		if r.Kind == End {
			got += r.Session.ID + " " + r.Session.EndReason + fmt.Sprintln("", r.Boot == "before")
		}
	}
	require.Equal(t, got, "dddddd end true\nbbbbbb reboot true\ncccccc untracked true\n")
}

// TestLostFirst: the record of missing events has a time, even if nothing was read before.
func TestLostFirst(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	keep(t, dir, place{Boot: d.boot, TimeNS: 5, Time: time.Now()})
	d.add(func(e *api.Event) {
		e.Type, e.Where, e.LostFrom, e.LostTo, e.TimeNS, e.Time = "lost", "history", 7, 9, 0, nil
	})
	follower(t, d, l, dir)
	require.Eventually(t, "record", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.records) > 0 })
	if r := l.records[0]; r.Kind != api.EventLost || time.Since(r.Time) > time.Minute {
		t.Errorf("%s at %v", r.Kind, r.Time)
	}
}
