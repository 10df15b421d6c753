// Package privilege gives up what a root process does not need any more, in
// all its threads and for good.
//
// What is left are a few capabilities, and uid 0: pins, the socket's directory,
// the audit log and the history belong to root, and a process that is not root
// would need CAP_DAC_OVERRIDE for them, which gives more than root's own files.
package privilege
