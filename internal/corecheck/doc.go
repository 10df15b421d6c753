// Package corecheck relocates the BPF objects against the BTF of kernels, without loading anything, and names what
// programs would read, call or attach to and a kernel has not.
package corecheck
