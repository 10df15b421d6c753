package main

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
)

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

// Of a process that is reaped nobody knows the name any more.
func TestEventWithoutName(t *testing.T) {
	f := newFake()
	f.stream = []api.Event{{Seq: 7, Time: at(0), Type: "reaped", Process: &api.Process{Ref: ref(4140)}, Session: "k3x9q2"}}
	if _, out, _ := newWorld(t, f).run("events"); out != "12:03:20.000  reaped    k3x9q2  4140\n" {
		t.Errorf("%q", out)
	}
}
