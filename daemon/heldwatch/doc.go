// Package heldwatch looks regularly at what the members of live sessions hold: when the kernel ends
// a session with grace 0, no process is left to look at.
package heldwatch
