package document

import (
	"testing"
	"time"
)

// TestClockStep: times follow a wall clock that is set, but not its small variations.
func TestClockStep(t *testing.T) {
	wall, boottime := time.Unix(1e9, 0), uint64(time.Hour)
	c := Following(func() time.Time { return wall }, func() uint64 { return boottime })
	then := uint64(time.Minute)
	first := *c.Wall(then)
	if want := time.Unix(1e9, 0).Add(time.Minute - time.Hour); !first.Equal(want) {
		t.Errorf("%v, want %v", first, want)
	}
	wall, boottime = wall.Add(time.Second+time.Millisecond), boottime+uint64(time.Second)
	if got := *c.Wall(then); !got.Equal(first) {
		t.Errorf("%v, was %v", got, first)
	}
	wall = wall.Add(-24 * time.Hour)
	if got, want := *c.Wall(then), first.Add(time.Millisecond-24*time.Hour); !got.Equal(want) {
		t.Errorf("%v after the step, want %v", got, want)
	}
}
