package display

import (
	"strings"
	"testing"
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
		{"empty argument", []string{"printf", "", "x"}, "printf", false, 0, "printf '' x"},
		{"title", []string{"npm run dev", "", "", ""}, "npm", false, 0, "'npm run dev'"},
		{"nothing but empty ones", []string{"", ""}, "x", false, 0, "''"},
		{"blanks and quotes", []string{"sh", "-c", "echo 'x' $y"}, "sh", false, 0, `sh -c 'echo '\''x'\'' $y'`},
		{"escapes", []string{"a\x1b[1mb\n"}, "", false, 0, `'a\x1b[1mb\n'`},
		{"truncated by the kernel", []string{"find", "a"}, "", true, 0, "find a…"},
		{"cut here, between runes", []string{"x", long}, "", false, 8, "x ééé…"},
		{"in full", []string{"x", long}, "", false, 0, "x " + long},
	} {
		if got := Command(tt.argv, tt.comm, tt.truncated, tt.limit); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
