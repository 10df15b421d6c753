package main

import (
	"testing"
	"time"
)

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
