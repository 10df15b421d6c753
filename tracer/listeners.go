//go:build linux

package tracer

import (
	"net/netip"

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
