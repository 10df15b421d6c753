// Package require ends a test at an error, a wrong value or a wait that is too long, or skips it
// without root.
package require

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Patience bounds a wait; reaching it is a failure.
var Patience = Slowed(30 * time.Second)

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

// Equal ends the test unless got is what it wants.
func Equal[V comparable](t T, got, want V) {
	t.Helper()
	if got != want {
		verb := "%+v"
		if _, ok := any(got).(string); ok {
			verb = "%q"
		}
		t.Fatal(fmt.Sprintf("got  "+verb+"\nwant "+verb, got, want))
	}
}

// Contains ends the test unless all parts are in a text.
func Contains(t T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Fatal(fmt.Sprintf("no %q in\n%s", part, text))
		}
	}
}

// ErrorIs ends the test unless err is want; what is what was done.
func ErrorIs(t T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatal(fmt.Sprintf("%s: %v, want %v", what, err, want))
	}
}

// Eventually polls for what no event announces, and ends the test if it does not come.
func Eventually(t T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(fmt.Sprintf("not within %v: %s", Patience, what))
		}
	}
}

// ReadFile is what a file holds.
func ReadFile(t T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	NoError(t, err)
	return b
}

// Soon is what comes over a channel. It ends the test if that takes too long.
func Soon[V any](t T, c <-chan V, late string) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Patience):
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
