//go:build linux

package tracer

import (
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// addrPort is the address that l listens on; not valid if that is neither IPv4 nor IPv6.
func addrPort(l *bpf.LineageListener) netip.AddrPort {
	switch l.Family {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(l.Address[:])), l.Port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(l.Address), l.Port)
	}
	return netip.AddrPort{}
}

// noPorts returns why the kernel does not report ports, nil if it does: it may have been
// built without TCP.
func (k *kernel) noPorts() error {
	var t *btf.Typedef
	if err := k.spec.TypeByName("btf_trace_inet_sock_set_state", &t); err != nil {
		return fmt.Errorf("look up the tracepoint of TCP states: %w", err)
	}
	return nil
}
