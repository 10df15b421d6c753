// Package signing makes commands that operators sign, sends them to hosts, and checks what the hosts
// have signed. Keys stay with ssh-keygen and the SSH agent.
package signing
