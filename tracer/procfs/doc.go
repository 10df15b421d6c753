// Package procfs reads what /proc says of processes.
package procfs
