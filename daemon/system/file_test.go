//go:build linux

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// TestFilesOfOthers: what the owner of the directory made in place of our files is refused at
// once, and not changed.
func TestFilesOfOthers(t *testing.T) {
	for name, plant := range map[string]func(path, secret string) error{
		"link":      func(path, secret string) error { return os.Symlink(secret, path) },
		"hard link": func(path, secret string) error { return os.Link(secret, path) },
		"FIFO":      func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			i := at(t, filepath.Join(t.TempDir(), "s"))
			secret := filepath.Join(filepath.Dir(i.Socket), "secret")
			require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
			refused := make(chan error)
			for what, open := range map[string]func() error{
				i.Log:  func() error { return i.start(t.Context(), exec.Command("/nowhere/lngtest")) },
				i.lock: func() error { _, err := i.TryLock(); return err },
				i.pid:  func() error { _, err := i.HoldPIDFile(t.Context(), true); return err },
			} {
				require.NoError(t, plant(what, secret))
				go func() { refused <- open() }()
				if require.Soon(t, refused, what+" blocks") == nil {
					t.Errorf("%s is used", what)
				}
			}
			if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
				t.Errorf("another file has %q: %v", b, err)
			}
		})
	}
}
