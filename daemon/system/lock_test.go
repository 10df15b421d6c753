//go:build linux

package system

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLockOfARemovedFile: who locks a file that was removed since it was opened has nothing: the
// next one locks a new file.
func TestLockOfARemovedFile(t *testing.T) {
	i := at(t, filepath.Join(t.TempDir(), "s"))
	for name, remove := range map[string]func() error{
		"removed":  func() error { return os.Remove(i.lock) },
		"replaced": func() error { return os.Rename(i.pid, i.lock) },
	} {
		f, err := os.Create(i.lock)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(i.pid, nil, 0o600))
		require.NoError(t, remove())
		if l, err := i.take(f); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}

// TestLockToLeave: a daemon whose directory was removed exits as others do, leaves no
// directory behind, and does not disturb another daemon.
func TestLockToLeave(t *testing.T) {
	parent := t.TempDir()
	i := at(t, filepath.Join(parent, "dir", "s"))
	hold := func() *PIDFile {
		t.Helper()
		require.NoError(t, i.Prepare())
		p, err := i.HoldPIDFile(t.Context(), true)
		require.NoError(t, err)
		t.Cleanup(p.Release)
		return p
	}
	leave := func(alone *PIDFile) *InstanceLock {
		t.Helper()
		l, err := i.LockToLeave(alone)
		require.NoError(t, err)
		return l
	}
	there := func() bool { _, err := os.Stat(filepath.Dir(i.Socket)); return err == nil }
	alone := hold()

	l := leave(alone)
	if _, err := i.TryLock(); !errors.Is(err, ErrLocked) {
		t.Errorf("the lock is held: %v", err)
	}
	if l.Release(); !there() {
		t.Error("a directory that was there was removed")
	}

	waiting, err := os.OpenFile(i.lock, os.O_RDWR, 0)
	require.NoError(t, err)
	defer waiting.Close()
	require.NoError(t, os.RemoveAll(filepath.Dir(i.Socket)))
	l = leave(alone)
	if _, err := i.TryLock(); !errors.Is(err, ErrLocked) {
		t.Errorf("the lock is held in the new directory: %v", err)
	}
	if named(waiting, i.lock) {
		t.Error("a removed lock counts as the lock")
	}
	if l.Release(); there() {
		t.Error("the directory is left behind")
	}

	next := hold() // a daemon in a new directory
	if _, err := i.LockToLeave(alone); !errors.Is(err, ErrRunning) {
		t.Errorf("another daemon has the instance: %v", err)
	}
	leave(next).Release()

	require.NoError(t, os.RemoveAll(parent))
	if leave(next).Release(); there() { // no daemon can start there
		t.Error("the directory is left behind")
	}
}
