// Package registry is the one goroutine that owns the graph and the sessions. It never
// waits: events reach it in batches, requests as calls of Read and Update, and what may
// take time (passes, snapshots, procfs, slow readers) runs elsewhere. It knows no
// feature by name: they attach [Hooks].
package registry
