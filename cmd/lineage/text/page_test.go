package text

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom([]rune("ab é漢字e\u0301😀"))).Draw(t, "s")
		n := rapid.IntRange(1, 12).Draw(t, "n")
		got := Fit(s, n)
		if width(got) > n || !utf8.ValidString(got) {
			t.Fatalf("Fit(%q, %d) = %q, %d columns", s, n, got, width(got))
		}
		if width(s) <= n && got != s {
			t.Fatalf("Fit(%q, %d) = %q", s, n, got)
		}
	})
}
