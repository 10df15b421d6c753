// Package dialog asks before something is ended, has it ended, and says how that
// went. What a dialog is about is fixed when it opens: a session by its id, a
// process by PID and start.
package dialog
