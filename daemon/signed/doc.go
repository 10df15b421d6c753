// Package signed checks commands that operators have signed with their SSH keys, remembers them so
// that each acts at most once, and signs receipts with the host's key. It trusts nothing that
// brought a command.
package signed
