//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

func mountAt(t *testing.T, options string) string {
	t.Helper()
	tracertest.Dir(t) // in our own mount namespace
	dir := t.TempDir()
	require.NoError(t, unix.Mount("bpf", dir, "bpf", 0, options))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestPinsAreRoots: pins are neither made nor opened where other users can put theirs.
func TestPinsAreRoots(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		uid     int
		mode    os.FileMode            // of the bpffs, without the sticky bit that every mount has; 0: as mounted
		make    func(dir string) error // makes the pins, before the first open
		why     string                 // "": they are opened
	}{
		"as systemd mounts it":    {options: "mode=0700"},
		"as mount does":           {},
		"there already":           {make: func(dir string) error { return os.Mkdir(dir, 0o700) }},
		"others write the parent": {mode: 0o777, why: "users other than root may write"},
		"the group writes it":     {mode: 0o770, why: "users other than root may write"},
		"another's parent":        {uid: 65534, mode: 0o700, why: "belongs to uid 65534"},
		"another's directory":     {make: func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534)) }, why: "belongs to uid 65534"},
		"others write it": {make: func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
			why: "users other than root may write"},
		"others write it, sticky": {make: func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky)) },
			why: "users other than root may write"},
		"a link to a directory": {make: func(dir string) error { return os.Symlink("/sys/fs/bpf", dir) }, why: "is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := mountAt(t, c.options)
			if c.mode != 0 {
				require.NoError(t, errors.Join(os.Chown(parent, c.uid, 0), os.Chmod(parent, c.mode)))
			}
			dir := filepath.Join(parent, "pins")
			if c.make != nil {
				require.NoError(t, c.make(dir))
			}
			tr, err := tracer.Open(tracer.Options{Dir: dir})
			if err == nil {
				tr.Close()
				t.Cleanup(func() { tracer.Unload(dir) })
			}
			if c.why == "" {
				require.NoError(t, err)
				return
			}
			if !errors.Is(err, tracer.ErrUnsafePins) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.why)
			}
			if pinned(dir) {
				t.Error("something is pinned")
			}
		})
	}
}

// TestMountBPFFS: a missing bpffs is mounted for root alone, an existing one stays as
// it is.
func TestMountBPFFS(t *testing.T) {
	tracertest.Dir(t)
	dir := t.TempDir()
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if err := tracer.Probe(filepath.Join(dir, "pins"), dir).Err; err != nil {
		t.Errorf("a missing one that can be mounted: %v", err)
	}
	for _, want := range []bool{true, false} {
		if mounted, err := tracer.MountBPFFS(dir); mounted != want || err != nil {
			t.Fatalf("%v %v, want %v", mounted, err, want)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	tr, err := tracer.Open(tracer.Options{Dir: filepath.Join(dir, "pins")})
	require.NoError(t, err)
	tr.Close()
	require.NoError(t, tracer.Unload(filepath.Join(dir, "pins")))
	if _, err := tracer.MountBPFFS(filepath.Join(dir, "none")); err == nil {
		t.Error("mounted where there is no directory")
	}
}
