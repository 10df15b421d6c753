// Package display shows documents of package api as text on one line that is safe
// to print. Comm, argv, paths and names are chosen by the traced processes: printed
// unchanged they could move the cursor, set the clipboard, or show something else
// than their bytes say.
package display
