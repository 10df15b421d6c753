// Package audit writes the audit log: one JSON object a line for every end,
// however it was triggered, and for every refusal.
//
// Nobody waits for the disk: records are queued and written by one goroutine,
// which syncs the file behind every end. What could not be written is said
// aloud and counted in the next record that could; it never stops an end.
package audit
