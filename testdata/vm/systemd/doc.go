// Package systemd tests an installed lineage under a real systemd, in a virtual
// machine.
package systemd
