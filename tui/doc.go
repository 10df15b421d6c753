// Package tui is `lineage top`: the live tree of sessions in a terminal, from the
// daemon's watch stream. Update does no I/O; a request to the daemon is a command, and
// its answer a message. All text from processes is hostile and goes through package
// display; nothing here needs privileges that the daemon does not check.
package tui
