// Package require ends a test at an error or a wrong value. The root module's has more, and would be a
// requirement of this one.
package require

import "testing"

// NoError ends the test at the first error.
func NoError(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Equal ends the test unless got is what it wants.
func Equal[V comparable](t testing.TB, got, want V) {
	t.Helper()
	if got != want {
		t.Fatalf("got  %#v\nwant %#v", got, want)
	}
}
