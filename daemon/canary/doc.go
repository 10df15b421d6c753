// Package canary is the processes of a self-check: a small tree that does what an agent
// does to escape, and that exits automatically whatever happens to the daemon.
package canary
