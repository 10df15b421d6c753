//go:build linux

package system

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// What another user put in place of the file is refused and not changed.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		plant     func(path, other string) error
		why       string
		onlyTaken bool // Open accepts it
	}{
		"link":      {plant: func(path, other string) error { return os.Symlink(other, path) }, why: "symbolic links"},
		"hard link": {plant: func(path, other string) error { return os.Link(other, path) }, why: "2 hard links"},
		"FIFO":      {plant: func(path, _ string) error { return unix.Mkfifo(path, 0o600) }, why: "not a regular file"},
		"stranger": {plant: func(path, _ string) error {
			if os.Geteuid() != 0 {
				return os.ErrPermission
			}
			if err := os.WriteFile(path, nil, 0o666); err != nil {
				return err
			}
			return os.Chown(path, 65534, 65534)
		}, why: "belongs to uid 65534", onlyTaken: true},
	} {
		t.Run(name, func(t *testing.T) {
			path, other := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "other")
			require.NoError(t, os.WriteFile(other, []byte("precious"), 0o644))
			if err := c.plant(path, other); os.IsPermission(err) {
				t.Skip("needs root")
			} else if err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			require.NoError(t, err)
			for _, open := range []func(string, int) (*os.File, error){OpenFile, TakeFile} {
				f, err := open(path, os.O_RDWR|os.O_CREATE)
				if err == nil {
					f.Close()
				}
				if c.onlyTaken {
					c.onlyTaken = false
					if err != nil {
						t.Error(err)
					}
				} else if err == nil || !strings.Contains(err.Error(), c.why) || strings.Count(err.Error(), path) != 1 {
					t.Errorf("error %v, want %q and the path", err, c.why)
				}
			}
			after, err := os.Lstat(path)
			if err != nil || after.Mode() != before.Mode() {
				t.Errorf("mode %v became %v: %v", before.Mode(), after.Mode(), err)
			}
			if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 8 {
				t.Errorf("the other file was changed: %v, %v", info, err)
			}
		})
	}
}

// A file of ours is made private; a missing one is made only on request.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := TakeFile(path, os.O_RDWR); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	f, err := TakeFile(path, os.O_RDWR|os.O_CREATE)
	require.NoError(t, err)
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
}

// What is written to a file without a name would be lost.
func TestRemovedMeanwhile(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "file")
	require.NoError(t, err)
	defer f.Close()
	var st unix.Stat_t
	require.NoError(t, errors.Join(os.Remove(f.Name()), unix.Fstat(int(f.Fd()), &st)))
	if err := private(f, &st); err == nil {
		t.Error("it is taken")
	}
}
