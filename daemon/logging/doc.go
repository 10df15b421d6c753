// Package logging is the daemon's log: where its lines go, how many there are, and the
// names of their fields.
package logging
