// Package panes has the parts of the screen beside the tree, and the words that every part uses: the columns, the details
// of a row, the events and the timeline of a session, and the dialog that asks before something is ended. The target of
// a dialog is fixed when it opens: a session by its id, a process by PID and start. All text is sanitised.
package panes
