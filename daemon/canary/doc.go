// Package canary is the processes of a self-check: a small tree that does what
// an agent does to get away, and that ends by itself whatever becomes of the
// daemon.
package canary
