// Package branch finds a process and everything that it ever started, by creator, and
// separates these processes from their session, so that they can be ended like a
// session.
package branch
