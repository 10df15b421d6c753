// Package audit writes the audit log: one JSON object a line for every end,
// however it was triggered, for other changes, and for refusals.
//
// The daemon does not wait for the disk: records are queued and written by one goroutine,
// which syncs the file after ends. What could not be written is logged
// and counted in the next record that could; it never prevents an end.
package audit
