//go:build linux

package takeover

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/bpf"
)

// Halt returns the halt that is in force for the programs; an older version knows none.
func (p *Programs) Halt() (h bpf.LineageHalt, err error) {
	bss, at, err := p.shared("halt")
	if bss == nil {
		return h, err
	}
	defer bss.Close()
	layout, err := p.copier(bss, "halt", "mode")
	if err != nil {
		return h, err
	}
	value, err := bss.LookupBytes(uint32(0))
	if err == nil && uint64(at) > uint64(len(value)) {
		err = fmt.Errorf("%d bytes do not hold it at %d", len(value), at)
	}
	if err == nil {
		err = Into(layout, value[at:], &h)
	}
	if err != nil {
		return h, fmt.Errorf("read the halt: %w", err)
	}
	return h, nil
}
