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

func (t *Tracer) openControl(spec *ebpf.CollectionSpec) error {
	bss, offset := t.maps[".bss"], spec.Variables[bpf.LineageVarControl].Offset
	if size := unsafe.Sizeof(bpf.LineageShared{}); uintptr(offset)+size > uintptr(bss.ValueSize()) {
		return fmt.Errorf("map .bss: %d bytes do not hold %d at %d", bss.ValueSize(), size, offset)
	}
	b, err := unix.Mmap(bss.FD(), 0, int(bss.ValueSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map .bss: %w", err)
	}
	t.control = control{(*bpf.LineageShared)(unsafe.Pointer(&b[offset]))}
	// Not in Close: a call after Close, which is forbidden, must not fault.
	runtime.AddCleanup(t, func(b []byte) { _ = unix.Munmap(b) }, b)
	return nil
}

// setFilter limits the snapshot to one session; 0 is every process.
func (c control) setFilter(id SessionID) {
	atomic.StoreUint64(&c.shared.Filter, uint64(id))
}

// setAdopting makes the fork hook enter outsiders that descend from the session's members: those of one uid, or all if
// uid is 0.
func (c control) setAdopting(id SessionID, uid uint32) {
	only := uint32(0)
	if uid != 0 {
		only = uid + 1
	}
	atomic.StoreUint32(&c.shared.AdoptingUid, only)
	atomic.StoreUint64(&c.shared.Adopting, uint64(id))
}

// setLooks chooses what the exec hook looks for: bits of enum looks.
func (c control) setLooks(looks uint32) { atomic.StoreUint32(&c.shared.Agents, looks) }

func (c control) looks() uint32 { return atomic.LoadUint32(&c.shared.Agents) }

// setPolling tells the hooks that the reader will poll soon.
func (c control) setPolling(on bool) {
	var v uint32
	if on {
		v = 1
	}
	atomic.StoreUint32(&c.shared.Polling, v)
}
