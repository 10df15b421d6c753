//go:build linux

package tracer

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
)

// ABI names the layout of what this version pins; see [Features].
func ABI() string { return bpf.ABI() }

// Objects returns the SHA-256 of each object that this version loads, by name.
func Objects() map[string]string { return bpf.Objects() }

// copier converts a struct from the layout of another version to ours, by the names of
// its fields: names do not change between versions.
type copier struct {
	size  uint32 // of the result, bytes
	steps []step
}

type step struct{ from, to, size uint32 }

// newCopier finds each of our fields in theirs. A field that theirs lacks is 0 in the
// result, unless it is needed; one with another size is an error.
func newCopier(theirs, ours *btf.Struct, needed ...string) (copier, error) {
	c := copier{size: ours.Size}
	there := map[string]btf.Member{}
	for _, m := range theirs.Members {
		there[m.Name] = m
	}
	for _, m := range ours.Members {
		old, ok := there[m.Name]
		if !ok {
			continue
		}
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			return c, fmt.Errorf("struct %s: size of %s: %w", ours.Name, m.Name, err)
		}
		if n, err := btf.Sizeof(old.Type); err != nil || n != size {
			return c, fmt.Errorf("struct %s: %s has %d bytes there, %d here", ours.Name, m.Name, n, size)
		}
		c.steps = append(c.steps, step{old.Offset.Bytes(), m.Offset.Bytes(), uint32(size)})
	}
	for _, name := range needed {
		if _, ok := there[name]; !ok {
			return c, fmt.Errorf("struct %s has no %s there", ours.Name, name)
		}
	}
	return c, nil
}

// into fills out, which must have our layout, from a value of theirs.
func into[T any](c copier, value []byte, out *T) error {
	if unsafe.Sizeof(*out) != uintptr(c.size) {
		return fmt.Errorf("%T has %d bytes, its layout %d", *out, unsafe.Sizeof(*out), c.size)
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(out)), c.size)
	for _, s := range c.steps {
		if uint64(s.from)+uint64(s.size) > uint64(len(value)) {
			return fmt.Errorf("value of %d bytes is too short", len(value))
		}
		copy(b[s.to:s.to+s.size], value[s.from:s.from+s.size])
	}
	return nil
}
