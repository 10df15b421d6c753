// Package daemon is the host service: it joins the tracer, the graph and the
// enforcer and serves package api over HTTP on a unix socket.
//
// One goroutine owns the graph and the sessions. It waits for nobody: events
// reach it in batches, requests as closures, and what may take time (passes,
// snapshots, procfs, slow readers) runs elsewhere. The kernel holds the truth:
// the daemon may die at any moment, a new one opens the pins and goes on.
package daemon
