package memory

import (
	"slices"
	"strings"
	"testing"
)

func TestShortArgv(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, tt := range []struct {
		argv, want []string
		cut        bool
	}{
		{nil, nil, false},
		{[]string{""}, []string{""}, false},
		{[]string{"cc", "-c", "a.c"}, []string{"cc", "-c", "a.c"}, false},
		{make([]string, 32), make([]string, 32), false},
		{make([]string, 33), make([]string, 32), true},
		{[]string{long[:512]}, []string{long[:512]}, false},
		{[]string{long}, []string{long[:512]}, true},
		{[]string{"cc", long, "b"}, []string{"cc", long[:510]}, true},
		{[]string{long[:512], ""}, []string{long[:512]}, true},
	} {
		if got, cut := ShortArgv(tt.argv); !slices.Equal(got, tt.want) || cut != tt.cut {
			t.Errorf("of %d: %q, %v", len(tt.argv), got, cut)
		}
	}
}

// TestShare: a user gets what is free, and its equal part when nothing is.
func TestShare(t *testing.T) {
	s := NewShare(100)
	for _, tt := range []struct {
		uid  uint32
		n    int
		fits bool
	}{{1, 60, true}, {1, 41, false}, {1, 40, true}, {1, 1, false}, {2, 50, true}, {2, 1, false}, {3, 33, true}, {3, 1, false}} {
		if got := s.Take(tt.uid, tt.n); got != tt.fits {
			t.Errorf("uid %d takes %d: %v", tt.uid, tt.n, got)
		}
	}
	if !s.Over() || s.Used() != 183 {
		t.Errorf("used %d", s.Used())
	}
	s.Book(1, -100)
	if s.Over() || !s.Take(2, 17) || s.Take(2, 1) {
		t.Errorf("used %d after a user has returned all", s.Used())
	}
	s.Book(2, -67)
	s.Book(3, -33)
	if s.Used() != 0 || len(s.used) != 0 {
		t.Errorf("used %d at the end, %v", s.Used(), s.used)
	}
}

// TestShortPath: long paths take 256 bytes, and differ if the paths do.
func TestShortPath(t *testing.T) {
	x, y := strings.Repeat("x", 2000), strings.Repeat("y", 2000)
	a, b := ShortPath(x+"a"+x), ShortPath(x+"b"+x)
	if len(a) != 256 || a == b || ShortPath(x + y)[:90]+ShortPath(x + y)[166:] != x[:90]+y[:90] {
		t.Errorf("%d bytes: %s, %s", len(a), a, b)
	}
	if p := x[:256]; ShortPath(p) != p {
		t.Error("a short path is changed")
	}
}
