// Package privilege gives up what a root process no longer needs, in all its threads
// and permanently.
//
// The process keeps a few capabilities, and uid 0: pins, the socket's directory, the
// audit log and the history belong to root, and a process that is not root would need
// CAP_DAC_OVERRIDE for them, which gives more than root's own files.
package privilege
