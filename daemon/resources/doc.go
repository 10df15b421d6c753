// Package resources reads from procfs which listening ports, file locks, lock files and
// pipes processes hold, and which processes hold a given one.
//
// It only reads. A process is read through a handle on its procfs directory, which
// stays bound to that process even if its PID is reused, and whose identity the kernel
// confirms. What could not be read is reported as unknown, never as "not held". Every
// call is bounded by its context and by constants; none makes the kernel access a file
// system, so a dead NFS server delays nothing.
package resources
