// Package picture keeps the content of the daemon's frames as a tree that can be drawn
// a window at a time. A row is identified by what it shows, so that folds, marks and
// the selected row survive changes around them.
//
// The cost of a frame depends on what it changes, that of a window on what it shows
// (and, with a filter, on the skipped siblings). It is pure: no clock, no system calls,
// one goroutine.
package picture
