//go:build linux

package tracer_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// oldSide is the maps of a kernel side of an invented version: its structs have their
// fields in reverse order, and entries lack the file that a process executes.
type oldSide struct {
	t     *testing.T
	dir   string
	types map[string]*btf.Struct
	maps  map[string]*ebpf.Map
}

func newOldSide(t *testing.T, dir string) *oldSide {
	t.Helper()
	spec, err := bpf.LoadLineage()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	o := &oldSide{t: t, dir: dir, types: map[string]*btf.Struct{}, maps: map[string]*ebpf.Map{}}
	pid := &btf.Int{Name: "u32", Size: 4}
	for _, m := range []struct {
		name string
		typ  ebpf.MapType
		max  uint32
		key  btf.Type
		size uint32
		of   string
	}{
		{"processes", ebpf.Hash, 1000, pid, 4, "entry"},
		{"sessions", ebpf.Array, 100, pid, 4, "session"},
		{"session_ctl", ebpf.Array, 100, pid, 4, "ctl"},
	} {
		value := shuffled(t, spec.Types, m.of, "exe")
		o.types[m.of] = value
		o.make(&ebpf.MapSpec{Name: m.name, Type: m.typ, MaxEntries: m.max, KeySize: m.size, ValueSize: value.Size, Key: m.key, Value: value})
	}
	return o
}

func (o *oldSide) make(spec *ebpf.MapSpec) {
	o.t.Helper()
	m, err := ebpf.NewMap(spec)
	require.NoError(o.t, err)
	o.t.Cleanup(func() { m.Close() })
	path := filepath.Join(o.dir, "map_"+spec.Name)
	require.NoError(o.t, os.RemoveAll(path))
	require.NoError(o.t, m.Pin(path))
	o.maps[spec.Name] = m
}

func (o *oldSide) put(name, of string, key uint32, fields map[string]any) {
	o.t.Helper()
	s := o.types[of]
	b := make([]byte, s.Size)
	for _, m := range s.Members {
		value, ok := fields[m.Name]
		if id, is := value.(tracer.Identity); is {
			value = bpf.LineageIdentity{Start: id.Start, Tgid: id.PID}
		}
		if !ok {
			continue
		}
		_, err := binary.Encode(b[m.Offset.Bytes():], binary.NativeEndian, value)
		require.NoError(o.t, err)
	}
	require.NoError(o.t, o.maps[name].Put(key, b))
}

// shuffled is a struct with the members of the named one in reverse order, and one
// more, but without one that older versions lack. The structs inside it stay: they are values.
func shuffled(t *testing.T, spec *btf.Spec, name, without string) *btf.Struct {
	t.Helper()
	var s *btf.Struct
	require.NoError(t, spec.TypeByName(name, &s))
	out := &btf.Struct{Name: s.Name}
	add := func(m btf.Member, size int) {
		m.Offset = btf.Bits(out.Size * 8)
		out.Members = append(out.Members, m)
		out.Size += (uint32(size) + 7) &^ 7
	}
	add(btf.Member{Name: "later", Type: &btf.Int{Name: "u64", Size: 8}}, 8)
	for _, m := range slices.Backward(s.Members) {
		if m.Name == without {
			continue
		}
		size, err := btf.Sizeof(m.Type)
		require.NoError(t, err)
		add(m, size)
	}
	return out
}
