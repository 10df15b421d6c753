// Package dialog asks before something is ended, ends it, and shows the result. The
// target of a dialog is fixed when it opens: a session by its id, a process by PID and
// start.
package dialog
