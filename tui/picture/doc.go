// Package picture keeps what the daemon's frames say as a tree that can be
// drawn a window at a time. A row is known by the identity of what it shows, so
// that folds, marks and the selected row outlive whatever moves around them.
//
// Applying a frame costs as much as it changes, a window as much as it shows
// (and, under a filter, the siblings that it skips). It is pure: no clock, no
// system calls, one goroutine.
package picture
