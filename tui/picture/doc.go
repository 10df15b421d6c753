// Package picture reads the daemon's frames and keeps their content as a tree that can be drawn a window at a time. A row
// is identified by what it shows, so that folds, marks and the selected row survive changes around them. The reader of
// frames may be slower than the daemon, and waits for a daemon that does not run.
//
// The cost of a frame depends on what it changes, that of a window on what it shows (and, with a filter, on the skipped
// siblings). The tree is pure: no clock, no system calls, one goroutine.
package picture
