package main

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Processes that are left out are named.
func TestAdopt(t *testing.T) {
	f := newFake()
	f.Has.Warnings = []string{"pid 5 (rootd) and its descendants are not adopted: it runs as uid 0"}
	w := newWorld(t, f)
	golden(t, "adopt", w.record("adopt", "4121", "--name", "found", "--grace", "2s", "--idle", "1h", "--on-exit", "report")+
		w.record("adopt", "4121@99", "-o", "name")+w.record("adopt", "4121", "-o", "json"))
	want := api.NewSession{Root: api.Ref{PID: 4121}, Name: "found", Adopt: true, OnRootExit: "report", IdleMS: 3600000}
	got := f.Got.Created[0]
	if got.GraceMS == nil || *got.GraceMS != 2000 {
		t.Errorf("grace %v", got.GraceMS)
	}
	if got.GraceMS = nil; got != want {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
	require.Equal(t, f.Got.Created[1].Root.StartNS, 99)
}

func TestKeep(t *testing.T) {
	f := newFake()
	f.Has.Warnings = []string{"pid 5 loses its terminal when pid 4 ends"}
	code, stdout, stderr := newWorld(t, f).run("keep", "4121", "4130@4130000", "--name", "cache", "--reason",
		"shared cache", "--until", "2099-06-30T12:00:00Z", "-o", "name")
	if code != 0 || stdout != "kept00\n" || stderr != "lineage: keep: pid 5 loses its terminal when pid 4 ends\n" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	req := f.Got.Kept[0]
	if len(req.Refs) != 2 || req.Refs[0].StartNS == 0 || req.Refs[1].StartNS != 4130000 || req.Name != "cache" || req.Reason != "shared cache" ||
		!req.Until.Equal(time.Date(2099, 6, 30, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", req)
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"8h":                   now.Add(8 * time.Hour),
		"2026-05-01":           time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC), // until the end of that day
		"2026-05-03T01:02:03Z": time.Date(2026, 5, 3, 1, 2, 3, 0, time.UTC),
	} {
		if got, ok := moment(text, now); !ok || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "0s", "-1h", "tomorrow", "2026-13-01", "8", "9999-12-31", "9999-12-31T23:59:59-01:00"} {
		if got, ok := moment(text, now); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}
