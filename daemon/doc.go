// Package daemon is the host service: it joins the tracer, the registry and the
// enforcer, attaches the features to the registry and serves package api over HTTP on a
// unix socket.
//
// The kernel holds the truth: the daemon may die at any moment; a new one opens the
// pins and continues.
package daemon
