package api

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "0s": now, "0": now, "2026-03-04T11:00:00Z": now.Add(-time.Hour),
		"2026-03-04T13:00:00.5+01:00": now.Add(time.Second / 2), "1970-01-01T00:00:00Z": time.Unix(0, 0),
		"today": now.Add(-12 * time.Hour), "yesterday": now.Add(-36 * time.Hour), "7d": now.AddDate(0, 0, -7),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "-10m", "tomorrow", "2026-03-04", "2026-03-04 11:00:00", "1969-12-31T23:59:59Z",
		"9999-01-01T00:00:00Z", "2000000h", "2026-02-30T00:00:00Z", "NaNh", "9999999999h", "d", "-1d", "1.5d", "99999d"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}
