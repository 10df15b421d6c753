package display

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d1h",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 257400 * time.Nanosecond: "257µs", 1253 * time.Microsecond: "1.25ms", 10257183 * time.Microsecond: "10.3s",
		999900 * time.Microsecond: "1s", 59999 * time.Millisecond: "1m0s", 61 * time.Second: "1m1s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 10 << 10: "10K", 1<<20 - 1: "1.0M", 3 << 30: "3.0G", 1<<64 - 1: "16E",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}
