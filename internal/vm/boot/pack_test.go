//go:build linux

package boot

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

func TestPack(t *testing.T) {
	base, over := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{base + "/etc/kept": "kept", base + "/etc/both": "old", over + "/etc/both": "new"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, err := range []error{
		os.Symlink("etc/kept", base+"/link"), os.Mkdir(base+"/tmp", 0o755), os.Chmod(base+"/tmp", os.ModeSticky|0o777),
		unix.Mkfifo(base+"/fifo", 0o600), os.WriteFile(over+"/run.sh", nil, 0o700), os.Chmod(base+"/etc", 0o711),
	} {
		require.NoError(t, err)
	}
	data, err := Pack(base, over)
	require.NoError(t, err)
	_, got := read(t, data) // of equal names the last counts, as for the kernel
	want := map[string]member{
		"dev": {0o040755, ""}, "dev/console": {0o020600, ""}, "etc": {0o040711, ""}, "etc/kept": {0o100600, "kept"},
		"etc/both": {0o100600, "new"}, "link": {0o120777, "etc/kept"}, "tmp": {0o041777, ""}, "run.sh": {0o100700, ""},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := Pack(filepath.Join(base, "none")); err == nil {
		t.Error("packed what is not there")
	}
}
