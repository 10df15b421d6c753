// Package boot starts a kernel in QEMU with an initramfs of its own. It returns what
// the jobs in it printed, their exit codes and what the kernel complained about. No
// disk image, no network, no modules: everything that the guest runs is in the
// initramfs.
package boot
