//go:build linux

package tracer

import "github.com/lineage-ebpf/lineage/bpf"

// ABI names the layout of what this version pins; see [Features].
func ABI() string { return bpf.ABI() }
