// Package status reports the state of the daemon to users, the service manager, the live picture and Prometheus, and
// proves regularly, by a self-check, that this host attributes and ends processes.
//
// The self-check starts a small tree that does what an agent does to escape, and that exits automatically whatever
// happens to the daemon.
package status
