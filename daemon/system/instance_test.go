//go:build linux

package system

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func at(t *testing.T, socket string) Instance {
	t.Helper()
	i, err := InstanceOf(socket)
	require.NoError(t, err)
	return i
}

func TestInstance(t *testing.T) {
	i := at(t, "")
	if i.Socket != "/run/lineage/lineage.sock" || i.Pins != "/sys/fs/bpf/lineage" || i.lock != "/run/lineage/lock" || i.Log != "/run/lineage/daemon.log" {
		t.Errorf("%+v", i)
	}
	// The first 8 hex digits of sha256("/tmp/x").
	if i := at(t, "/tmp/x"); i.Pins != "/sys/fs/bpf/lineage-2e56aa36" {
		t.Errorf("%+v", i)
	}
	require.NoError(t, (Instance{Socket: "/tmp"}).Prepare())
}

// TestInstanceByAnotherPath: all paths of a socket give one instance.
func TestInstanceByAnotherPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for link, to := range map[string]string{"run": "real", "var": "real/deep"} {
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Join(dir, to), 0o700), os.Symlink(to, filepath.Join(dir, link))))
	}
	for path, want := range map[string]string{
		"run/s":         "real/s",
		"var/s":         "real/deep/s",
		"run/deep/s":    "real/deep/s",
		"run/new/s":     "real/new/s", // which Prepare makes
		"run/../s":      "s",
		"real/./deep/s": "real/deep/s",
	} {
		got := at(t, dir+"/"+path)
		if got != at(t, filepath.Join(dir, want)) || got.Socket != filepath.Join(dir, want) {
			t.Errorf("%s: %+v, want that of %s", path, got, want)
		}
	}
}
