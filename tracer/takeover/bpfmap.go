//go:build linux

package takeover

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

const batch = 1024 // elements of a map that are read in one call

// Copier converts a struct from the layout of another version to ours, by the names of
// its fields: names do not change between versions.
type Copier struct {
	size  uint32 // of the result, bytes
	steps []step
}

type step struct{ from, to, size uint32 }

// NewCopier finds each of our fields in theirs. A field that theirs lacks is 0 in the
// result, unless it is needed; one with another size is an error.
func NewCopier(theirs, ours *btf.Struct, needed ...string) (Copier, error) {
	c := Copier{size: ours.Size}
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

// Into fills out, which must have our layout, from a value of theirs.
func Into[T any](c Copier, value []byte, out *T) error {
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

// TypesOf returns the types that the kernel keeps with a map.
func TypesOf(m *ebpf.Map) (*btf.Spec, error) {
	handle, err := m.Handle()
	if err != nil {
		return nil, fmt.Errorf("read types of map %v: %w", m, err)
	}
	defer handle.Close()
	spec, err := handle.Spec(nil)
	if err != nil {
		return nil, fmt.Errorf("read types of map %v: %w", m, err)
	}
	return spec, nil
}

// StructOf returns one of these types.
func StructOf(m *ebpf.Map, name string) (*btf.Struct, error) {
	types, err := TypesOf(m)
	if err != nil {
		return nil, err
	}
	var s *btf.Struct
	if err := types.TypeByName(name, &s); err != nil {
		return nil, fmt.Errorf("struct %s: %w", name, err)
	}
	return s, nil
}

// EachValue calls each for every element of an array map whose value size is known only at run
// time.
func EachValue(m *ebpf.Map, each func(slot uint32, value []byte) error) error {
	size := int(m.ValueSize())
	values := reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(size, reflect.TypeFor[byte]())), batch, batch)
	slots := make([]uint32, batch)
	for cursor := new(ebpf.MapBatchCursor); ; {
		n, last := m.BatchLookup(cursor, slots, values.Interface(), nil)
		if last != nil && !errors.Is(last, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read map %v: %w", m, last)
		}
		for i, slot := range slots[:n] {
			if err := each(slot, values.Index(i).Bytes()); err != nil {
				return err
			}
		}
		if last != nil {
			return nil
		}
	}
}

func Each[K comparable, V any](m *ebpf.Map, each func(K, *V)) error {
	var (
		cursor ebpf.MapBatchCursor
		keys   = make([]K, batch)
		values = make([]V, batch)
	)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range keys[:n] {
			each(keys[i], &values[i])
		}
		if err != nil {
			return nil
		}
	}
}
