//go:build linux

package procfs

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestStatus: the fields of a status that the kernel wrote, and one without users is an error.
func TestStatus(t *testing.T) {
	fs := FS(t.TempDir())
	require.NoError(t, os.Mkdir(filepath.Join(string(fs), "7"), 0o700))
	path := fs.Path(7, "status")
	text := "Name:\ta b: c\nTgid:\t7\nTracerPid:\t9\nNSpid:\t7\t3\t1\nCoreDumping:\t1\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000004000\n"
	want := Status{Name: "a b: c", TGID: 7, Tracer: 9, NSPID: 1, CoreDumping: true, Pending: 0x4100}
	require.NoError(t, os.WriteFile(path, []byte(text+"Uid:\t1000\tx\t0\t0\n"), 0o600))
	if got, err := fs.Status(7); err == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("without users: %+v, %v", got, err)
	}
	want.UIDs = []uint32{1000, 0, 0, 1000}
	require.NoError(t, os.WriteFile(path, []byte(text+"Uid:\t1000\t0\t0\t1000\n"), 0o600))
	if got, err := fs.Status(7); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
