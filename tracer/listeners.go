//go:build linux

package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/bpfmap"
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

// listenersTo copies the sockets that members listen on. The elder's hooks run before ours
// on the same tracepoint: a socket that is closed meanwhile is first removed there.
func (e *elder) listenersTo(t *Tracer) error {
	theirs, err := ebpf.LoadPinnedMap(pinPath(e.dir, mapPin, bpf.LineageMapListeners), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil // from a version without listeners
	}
	if err != nil {
		return fmt.Errorf("open map %s: %w", bpf.LineageMapListeners, err)
	}
	defer theirs.Close()
	ours := t.maps[bpf.LineageMapListeners]
	was, err := bpfmap.StructOf(theirs, "listener")
	if err != nil {
		return err
	}
	is, err := bpfmap.StructOf(ours, "listener")
	if err != nil {
		return err
	}
	layout, err := bpfmap.NewCopier(was, is, "session", "process", "since", "family", "port", "address")
	if err != nil {
		return err
	}
	each := theirs.Iterate()
	var key, value []byte
	for each.Next(&key, &value) {
		var l bpf.LineageListener
		if err := bpfmap.Into(layout, value, &l); err != nil {
			return fmt.Errorf("carry the listening sockets: %w", err)
		}
		socket := binary.NativeEndian.Uint64(key)
		if err := ours.Update(socket, &l, ebpf.UpdateNoExist); err != nil {
			continue // ours already has it, or has no room
		}
		// No value, and no error: it was closed before ours had it.
		if still, err := theirs.LookupBytes(key); err == nil && still == nil {
			if err := ours.Delete(socket); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("carry the listening sockets: %w", err)
			}
		}
	}
	if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("carry the listening sockets: %w", err)
	}
	return nil
}
