//go:build linux

package urgent

// closed has a bit for each standard descriptor that was closed. lineage_start sets it.
var closed uint8

// Ignored and Blocked have a bit for each signal, 1 << (signal - 1), that was ignored or blocked
// when the program was started. lineage_start sets them.
var Ignored, Blocked uint64

// Closed reports whether a standard descriptor, 0 to 2, was closed when the program was started.
func Closed(fd int) bool { return closed&(1<<fd) != 0 }
