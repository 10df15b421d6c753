// Package ending ends sessions and branches of them for the commands, here and on many
// hosts: the selection, the plan, the question, the wait, the receipts.
package ending
