// Package tui is `lineage top`: the live tree of sessions in a terminal, over
// what the daemon's watch stream says. Everything that it draws of a process is
// hostile and goes through package plain; nothing it does needs privileges that
// the daemon does not check.
package tui
