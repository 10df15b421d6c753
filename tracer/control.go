//go:build linux

package tracer

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// control is the programs' one writable global, mapped into this process.
// Its fields are written atomically: a Go atomic store is a full barrier, which
// the reader's step from polling to sleeping needs.
type control struct {
	shared *bpf.LineageShared
}

// openShared maps the programs' global and the sessions into this process.
func (t *Tracer) openShared(spec *ebpf.CollectionSpec) error {
	bss, offset := t.maps[".bss"], spec.Variables[bpf.LineageVarControl].Offset
	if size := unsafe.Sizeof(bpf.LineageShared{}); uintptr(offset)+size > uintptr(bss.ValueSize()) {
		return fmt.Errorf("map .bss: %d bytes do not hold %d at %d", bss.ValueSize(), size, offset)
	}
	b, err := t.share(bss, int(bss.ValueSize()), unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return err
	}
	t.control = control{(*bpf.LineageShared)(unsafe.Pointer(&b[offset]))}
	sessions := t.maps[bpf.LineageMapSessions]
	n := int(sessions.MaxEntries())
	if b, err = t.share(sessions, n*int(unsafe.Sizeof(bpf.LineageSession{})), unix.PROT_READ); err != nil {
		return err
	}
	t.slots = unsafe.Slice((*bpf.LineageSession)(unsafe.Pointer(&b[0])), n)
	return nil
}

// share maps the values of an array into this process.
func (t *Tracer) share(m *ebpf.Map, size, protection int) ([]byte, error) {
	b, err := unix.Mmap(m.FD(), 0, size, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %v: %w", m, err)
	}
	// Not in Close: a call after Close, which is forbidden, must not fault.
	runtime.AddCleanup(t, func(b []byte) { _ = unix.Munmap(b) }, b)
	return b, nil
}

// setAdopting makes the fork hook enter outsiders that descend from the session's members: those of one uid, or all if
// uid is 0.
func (c control) setAdopting(id SessionID, uid uint32) {
	atomic.StoreUint32(&c.shared.AdoptingUid, flag(uid != 0, uid+1))
	atomic.StoreUint64(&c.shared.Adopting, uint64(id))
}

// setLooks chooses what the exec hook looks for: bits of enum looks.
func (c control) setLooks(looks uint32) { atomic.StoreUint32(&c.shared.Agents, looks) }

// setPolling tells the hooks that the reader will poll soon.
func (c control) setPolling(on bool) { atomic.StoreUint32(&c.shared.Polling, flag[uint32](on, 1)) }
