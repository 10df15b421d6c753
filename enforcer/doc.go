// Package enforcer decides what may be ended and carries an end out: guards that refuse
// before anything is sent, the steps from SIGTERM to proof, and the receipt.
//
// It talks to the kernel through [Kernel] and is driven by an injected clock.
// It knows nothing of HTTP or of terminals. "Signals sent" is never "dead":
// only the kernel's own counts, confirmed by a pass over its task list, make a
// verdict clean.
package enforcer
