// Package tui is `lineage top`: the live tree of sessions in a terminal, over
// what the daemon's watch stream says. Update does no I/O; what needs the daemon is
// a command, and its answer a message. Everything that is drawn of a process is
// hostile and goes through package display; nothing here needs privileges that the
// daemon does not check.
package tui
