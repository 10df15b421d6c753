//go:build linux

package tracer

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
)

// control is the programs' one writable global, mapped into this process.
type control struct {
	mem  *ebpf.Memory
	base int64
}

func openControl(bss *ebpf.Map, offset uint32) (control, error) {
	mem, err := bss.Memory()
	if err != nil {
		return control{}, fmt.Errorf("map .bss: %w", err)
	}
	return control{mem, int64(offset)}, nil
}

// setFilter limits the snapshot to one session; 0 is every process.
func (c control) setFilter(id SessionID) error {
	b := binary.NativeEndian.AppendUint64(nil, uint64(id))
	_, err := c.mem.WriteAt(b, c.base+int64(unsafe.Offsetof(bpf.LineageShared{}.Filter)))
	return err
}

// setPolling tells the hooks that the reader looks by itself soon.
func (c control) setPolling(on bool) error {
	var v uint32
	if on {
		v = 1
	}
	b := binary.NativeEndian.AppendUint32(nil, v)
	_, err := c.mem.WriteAt(b, c.base+int64(unsafe.Offsetof(bpf.LineageShared{}.Polling)))
	return err
}
