// Package ending ends sessions and branches of them for the commands, here and on many hosts: the selection, the plan,
// the question, the wait, the receipts. It makes commands that operators sign, sends them to hosts, and checks what the
// hosts have signed; keys stay with ssh-keygen and the SSH agent.
package ending
