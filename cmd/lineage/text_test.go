package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCommand(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, tt := range []struct {
		name      string
		argv      []string
		comm      string
		truncated bool
		limit     int
		want      string
	}{
		{"nothing known", nil, "", false, 0, "?"},
		{"name only", nil, "kworker/0:1\n", false, 0, `kworker/0:1\n`},
		{"words", []string{"cc", "-O2", "a.c"}, "cc", false, 0, "cc -O2 a.c"},
		{"empty argument", []string{"printf", ""}, "printf", false, 0, "printf ''"},
		{"blanks and quotes", []string{"sh", "-c", "echo 'x' $y"}, "sh", false, 0, `sh -c 'echo '\''x'\'' $y'`},
		{"escapes", []string{"a\x1b[1mb\n"}, "", false, 0, `'a\x1b[1mb\n'`},
		{"truncated by the kernel", []string{"find", "a"}, "", true, 0, "find a…"},
		{"cut here, between runes", []string{"x", long}, "", false, 8, "x ééé…"},
		{"in full", []string{"x", long}, "", false, 0, "x " + long},
	} {
		if got := command(tt.argv, tt.comm, tt.truncated, tt.limit); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom([]rune("ab é漢字e\u0301😀"))).Draw(t, "s")
		n := rapid.IntRange(1, 12).Draw(t, "n")
		got := fit(s, n)
		if width(got) > n || !utf8.ValidString(got) {
			t.Fatalf("fit(%q, %d) = %q, %d columns", s, n, got, width(got))
		}
		if width(s) <= n && got != s {
			t.Fatalf("fit(%q, %d) = %q", s, n, got)
		}
	})
}

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d1h",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 10 << 10: "10K", 1<<20 - 1: "1.0M", 3 << 30: "3.0G", 1<<64 - 1: "16E",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}
