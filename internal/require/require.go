// Package require ends a test at an error, or skips it without root.
package require

import (
	"os"
	"time"
)

// T is what a test, a benchmark and a property have in common.
type T interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// NoError ends the test at the first error.
func NoError(t T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Soon is what comes over a channel. It ends the test if that takes too long.
func Soon[V any](t T, c <-chan V, late string) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(30 * time.Second):
		t.Fatal(late)
	}
	return v
}

// Root skips the test for a user who is not root.
func Root(t T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
