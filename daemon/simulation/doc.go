// Package simulation runs the parts of the daemon that decide over a kernel and a disk that fail, in time that is not
// real. It has only tests.
package simulation
