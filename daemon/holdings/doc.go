// Package holdings finds what the members of sessions hold: ports, locks, and the pipe that is a session's output.
//
// The kernel reports when a member begins to listen on a TCP socket, and when the last process that had the socket
// closed it. The rest is found by regular looks at procfs: when the kernel ends a session with grace 0, no process is
// left to look at. After an end another look shows what is free, for the receipt.
//
// A look only reads. A process is read through a handle on its procfs directory, which stays bound to that process even
// if its PID is reused, and whose identity the kernel confirms. What could not be read is reported as unknown, never as
// "not held". Every call is bounded by its context and by constants; none makes the kernel access a file system, so a
// dead NFS server delays nothing.
package holdings
