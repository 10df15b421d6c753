// Package heldwatch looks at what the members of live sessions hold once in a while: when the kernel
// ends a session with grace 0, no process is left to be asked.
package heldwatch
