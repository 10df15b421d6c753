// Package holds reads from procfs what processes hold that others wait for:
// listening ports, file locks, lock files and pipes; and who holds a given one.
//
// It only reads. A process is read through a handle on its procfs directory,
// which stays bound to that process however often its PID is used again, and
// whose identity the kernel confirms. What could not be read is told as
// unknown and never as "not held". Every call is bounded by its context and by
// constants; none makes the kernel ask a file system, so that a dead NFS
// server delays nobody.
package holds
