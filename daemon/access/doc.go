// Package access identifies callers, decides what they may do to which session and how much they see, and writes the
// audit log.
//
// The audit log has one JSON object a line for every end, however it was triggered, for other changes, and for
// refusals. The daemon does not wait for the disk: records are queued and written by one goroutine, which syncs the
// file after ends. What could not be written is logged and counted in the next record that could; it never prevents an
// end.
//
// The lines are joined by hashes, and [VerifyAudit] checks that none was changed or is missing. The chain has no key:
// who can write the log can replace it as a whole, or cut its tail. A head that was noted elsewhere shows that, too.
package access
