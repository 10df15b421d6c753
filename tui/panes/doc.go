// Package panes has the parts of the screen beside the tree: columns, details of a row, events and timeline of a session,
// and the dialog that asks before an end.
//
// The target of a dialog is fixed when it opens: a session by its id, a process by PID and start. All text is sanitised,
// and every part uses the same words for a row.
package panes
