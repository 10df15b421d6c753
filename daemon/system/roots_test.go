//go:build linux

package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOpenRoots: a file that another user chose or wrote is refused: by its directory, a link, or what a process says of itself.
func TestOpenRoots(t *testing.T) {
	require.Root(t)
	for name, c := range map[string]struct {
		make func(dir, file string) error
		why  string
	}{
		"root's":                 {func(string, string) error { return nil }, ""},
		"links of a ConfigMap":   {configMap, ""},
		"a link to procfs":       {func(_, file string) error { os.Remove(file); return os.Symlink("/proc/self/cmdline", file) }, "file of procfs"},
		"a directory of others":  {func(dir, _ string) error { return os.Chown(dir, 1000, 0) }, "belongs to uid 1000; move"},
		"others write there":     {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, "users other than root may write to"},
		"a directory as /tmp is": {func(dir, _ string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, ""},
		"a link of others": {func(_, file string) error {
			return firstErr(os.Rename(file, file+".x"), os.Symlink(file+".x", file), os.Lchown(file, 1000, 0))
		}, "belongs to uid 1000"},
		"links in a circle": {func(_, file string) error { os.Remove(file); return os.Symlink(file, file) }, "cannot be followed"},
	} {
		dir := filepath.Join(t.TempDir(), "dir")
		file := filepath.Join(dir, "file")
		require.NoError(t, os.Mkdir(dir, 0o755), os.WriteFile(file, nil, 0o644), c.make(dir, file))
		f, err := OpenRootsFile(file)
		if err == nil {
			f.Close()
		}
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
	if _, err := OpenRootsFile(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}

func configMap(dir, file string) error {
	data := filepath.Join(dir, "..2026")
	return firstErr(os.Mkdir(data, 0o755), os.Rename(file, filepath.Join(data, "file")),
		os.Symlink("..2026", filepath.Join(dir, "..data")), os.Symlink("..data/file", file))
}

func firstErr(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
