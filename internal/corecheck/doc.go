// Package corecheck relocates the BPF objects by the types of kernels, without loading, and names what a kernel lacks.
package corecheck
