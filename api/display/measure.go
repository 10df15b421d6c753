package display

import (
	"fmt"
	"strings"
	"time"
)

// Age shows how long something took or lasts, to its two largest units.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Clock shows a time as hour, minute and second in the zone of now, with its date unless it is today.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// Duration shows how long something took, to three digits.
func Duration(d time.Duration) string {
	d = max(d, 0)
	if d >= time.Minute {
		return Age(d)
	}
	unit := time.Microsecond
	for unit*1000 <= d {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Size shows bytes with binary units.
func Size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v, unit := float64(n), -1
	for v >= 1023.5 && unit < 5 {
		v /= 1024
		unit++
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%c", v, "KMGTPE"[unit])
	}
	return fmt.Sprintf("%.0f%c", v, "KMGTPE"[unit])
}

// CPU shows a time on the processor.
func CPU(seconds float64) string {
	if seconds < 60 {
		return fmt.Sprintf("%.2fs", seconds)
	}
	return Age(time.Duration(seconds * float64(time.Second)))
}

// Count is a number and its noun; many are several, unless that is one with -s or -es.
func Count(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		one = many[0]
	case strings.HasSuffix(one, "s"):
		one += "es"
	default:
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}
