//go:build linux

package takeover

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// entry is an entry of another version: its fields are elsewhere.
func entry(without string) *btf.Struct {
	word := &btf.Int{Name: "u64", Size: 8}
	s := &btf.Struct{Name: "entry"}
	for _, name := range []string{"novelty", "flags", "session", "evidence", "creator", "since", "start"} {
		if name != without {
			s.Members = append(s.Members, btf.Member{Name: name, Type: word, Offset: btf.Bits(s.Size * 8)})
			s.Size += 8
		}
	}
	return s
}

func TestLayout(t *testing.T) {
	p := &Programs{}
	require.NoError(t, p.lay(entry("")))
	require.Equal(t, p.layout, (bpf.LineageElderLayout{Present: 1, Flags: 8, Session: 16, Evidence: 24, Creator: 32, Since: 40, Start: 48}))
	if err := (&Programs{}).lay(entry("since")); err == nil || !strings.Contains(err.Error(), "since") {
		t.Errorf("an entry without since: %v", err)
	}
}

// The identity of the executable is used only if it has the size that we know.
func TestLayoutOfTheExecutable(t *testing.T) {
	for size, knows := range map[uint32]uint32{uint32(unsafe.Sizeof(bpf.LineageFileId{})): 1, 4: 0} {
		p, e := &Programs{}, entry("")
		e.Members = append(e.Members, btf.Member{Name: "exe", Type: &btf.Struct{Name: "file_id", Size: size}, Offset: btf.Bits(e.Size * 8)})
		if err := p.lay(e); err != nil || p.layout.KnowsExe != knows {
			t.Errorf("%d bytes: %+v, %v", size, p.layout, err)
		}
	}
}

// A value that is too short has no field there, and is not read beyond its end.
func TestWord(t *testing.T) {
	p, value := &Programs{}, binary.NativeEndian.AppendUint64(make([]byte, 8), 7)
	for at, want := range map[uint32]uint64{8: 7, 9: 0, 16: 0, 1<<32 - 1: 0} {
		if got := p.word(value, at); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
}

// Programs that pinned no maps have no sessions; that is not a damaged side.
func TestOpenNothing(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(dir, func(name string) string { return filepath.Join(dir, name) })
	if p != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %v", p, err)
	}
	p.Close()
}
