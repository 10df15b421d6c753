// Package status reports the state of the daemon: to users, the service manager, the live picture and Prometheus. It
// proves regularly that this host attributes and ends processes, with a small tree that does what an agent does to
// escape, and that exits automatically whatever happens to the daemon.
package status
