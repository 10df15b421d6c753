package registry

import (
	"slices"
	"testing"
)

// TestList: what has to go is the oldest of the user who has the most, by number and by bytes.
func TestList(t *testing.T) {
	var gone []string
	l := newRetained(4, 100, func(x string) { gone = append(gone, x) })
	check := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(gone, want) {
			t.Errorf("%s: %q had to go, want %q; kept %q", what, gone, want, l.All())
		}
		gone = nil
	}
	l.Add("b1", 2, 20)
	for _, x := range []string{"a1", "a2", "a3"} {
		l.Add(x, 1, 20)
	}
	check("within the bounds")
	l.Add("b2", 2, 20)
	check("one more than the number", "a1")
	l.Add("a4", 1, 70)
	check("too many bytes", "a2", "a3")
	if !l.Take(2, 45) || l.Take(2, 6) {
		t.Error("a user does not get an equal part")
	}
	check("taken within the part", "b1", "b2")
	if !l.Take(1, 10) {
		t.Error("the own entries made no room")
	}
	check("taken by the other", "a4")
	l.Book(1, -10)
	l.Book(2, -45)
	l.Add("b3", 2, 100)
	check("nothing is taken")
	if !slices.Equal(l.All(), []string{"b3"}) || l.memory.Used() != 100 || len(l.of) != 1 {
		t.Errorf("%q are kept, %d bytes", l.All(), l.memory.Used())
	}
}

// TestTakenByOthers: what users take for later makes no entry of another user go.
func TestTakenByOthers(t *testing.T) {
	l := newRetained(10, 100, func(x string) { t.Errorf("%s had to go", x) })
	if !l.Take(1, 100) {
		t.Fatal("there is no room")
	}
	l.Add("b1", 2, 20)
	l.Add("b2", 2, 20)
	if l.Take(1, 1) {
		t.Error("more than the bound")
	}
}
