// Package daemontest has a whole daemon over a kernel made of Go, served on a real socket.
// The tests of a room start one when what they test is what a client notices.
package daemontest
