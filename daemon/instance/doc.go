// Package instance is what the path of a socket names: the pins, the files and the
// lock of one daemon, how it is started, found, and replaced by the next one.
package instance
