// Package fleet tests lineage -H over real sshds on the loopback.
package fleet
