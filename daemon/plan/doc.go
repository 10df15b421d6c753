// Package plan says what an end would do, and refuses an end that is no longer the one
// that it said.
package plan
