// Package ending ends sessions for the commands, and branches of them, here and on many
// hosts: which ones, what that would do, the question, the wait, the receipts.
package ending
