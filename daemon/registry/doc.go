// Package registry is the one goroutine that owns the graph and the sessions, and the inbox of events before it. It
// never waits: events reach it in batches, requests as calls of Read and Update, and what may take time (passes,
// snapshots, procfs, slow readers) runs elsewhere. It knows no feature by name: they attach [Hooks].
//
// The inbox reads the kernel's events, and keeps those that the registry has not applied yet within a bound. What has
// ended is retained in memory, within a number and a bound in bytes that users share.
package registry
