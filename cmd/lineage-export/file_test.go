//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func numbered(r *follow.Record) iter.Seq[follow.LogRecord] {
	return slices.Values([]follow.LogRecord{{JSON: []byte(r.ID)}})
}

func batch(ids ...string) (all []*follow.Record) {
	for _, id := range ids {
		all = append(all, &follow.Record{ID: id})
	}
	return all
}

func open(t *testing.T, path string) *fileSink {
	t.Helper()
	s, err := newFileSink(path, numbered)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func deliver(t *testing.T, s follow.Sink, ids ...string) {
	t.Helper()
	require.NoError(t, s.Deliver(t.Context(), batch(ids...)))
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q (%v), want %q", filepath.Base(path), got, err, want)
	}
}

func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s := open(t, path)
	deliver(t, s, "1", "2")
	holds(t, path, "1\n2\n")
	require.NoError(t, s.Close())
	deliver(t, open(t, path), "3")
	holds(t, path, "1\n2\n3\n")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o007 != 0 {
		t.Errorf("%v, %v: others may read it", st.Mode(), err)
	}
}

// TestRotate does what logrotate does: by rename with and without a new file, by copy and
// truncation, and by removal.
func TestRotate(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "log"), filepath.Join(dir, "log.1")
	s := open(t, path)
	deliver(t, s, "1")
	for _, rotate := range []func() error{
		func() error { return os.Rename(path, old) },
		func() error { return errors.Join(os.Rename(path, old), os.WriteFile(path, nil, 0o600)) },
		func() error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(old, b, 0o600), os.Truncate(path, 0))
		},
	} {
		require.NoError(t, rotate())
		holds(t, old, "1\n")
		deliver(t, s, "1")
		holds(t, path, "1\n")
	}
	require.NoError(t, os.Remove(path))
	deliver(t, s, "2")
	holds(t, path, "2\n")
}

// TestLargeBatch: a large batch is not gathered as a whole.
func TestLargeBatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s := open(t, path)
	deliver(t, s, slices.Repeat([]string{strings.Repeat("x", 99_999)}, 100)...)
	if st, err := os.Stat(path); err != nil || st.Size() != 10_000_000 || s.buffer.Cap() > 4*writeSize {
		t.Errorf("%v, %v; a buffer of %d bytes", st, err, s.buffer.Cap())
	}
}

// TestCutOff: a line that a crash cut off is ended, so that only this line is broken.
func TestCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("1\nhal"), 0o600))
	deliver(t, open(t, path), "2")
	holds(t, path, "1\nhal\n2\n")
}

func TestRefusedPaths(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"symbolic link":  func(path string) error { return os.Symlink(filepath.Join(dir, "target"), path) },
		"regular":        func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"is a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"no such file":   func(path string) error { return nil },
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, make(path))
		if name == "no such file" {
			path = filepath.Join(dir, "absent", "log")
		}
		s, err := newFileSink(path, numbered)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "target")); err == nil {
		t.Error("the target of the link was made")
	}
}

// TestSwapped: a link that later replaces the file is not followed. What could not be written is
// written when the path is a file again.
func TestSwapped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	s := open(t, path)
	require.NoError(t, errors.Join(os.Remove(path), os.Symlink("victim", path)))
	for range 2 {
		require.Contains(t, fmt.Sprint(s.Deliver(t.Context(), batch("1"))), "symbolic link")
	}
	require.NoError(t, os.Remove(path))
	deliver(t, s, "1")
	holds(t, path, "1\n")
	if _, err := os.Stat(filepath.Join(dir, "victim")); err == nil {
		t.Error("the link was followed")
	}
}

func TestTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s := open(t, path)
	_, err := newFileSink(path, numbered)
	require.Contains(t, fmt.Sprint(err), "another exporter")
	s.Close()
	open(t, path)
}

// TestFullDisk fills a small file system: no half line stays, and the batch arrives as a whole
// when there is room again.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	runtime.LockOSThread() // never unlocked: the mount ends with the thread
	err := errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", dir, "tmpfs", 0, "size=64k"))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path, ballast := filepath.Join(dir, "log"), filepath.Join(dir, "ballast")
	s := open(t, path)
	deliver(t, s, "first")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 40<<10), 0o600))
	var ids []string
	for i := range 8 {
		ids = append(ids, fmt.Sprintf("%d%s", i, strings.Repeat("x", 4000)))
	}
	for range 3 {
		if err := s.Deliver(t.Context(), batch(ids...)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%v, want a full disk", err)
		}
		holds(t, path, "first\n")
	}
	require.NoError(t, os.Remove(ballast))
	deliver(t, s, ids...)
	holds(t, path, "first\n"+strings.Join(ids, "\n")+"\n")
}

// TestBlockedStream: a reader that does not read blocks Deliver no longer than the context lasts,
// and gets each line once when it reads again.
func TestBlockedStream(t *testing.T) {
	in, out := io.Pipe()
	s := newFileStream(out, numbered)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := s.Deliver(ctx, batch("1", "2")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, want the deadline", err)
		}
		cancel()
	}
	var got bytes.Buffer
	read := make(chan error)
	go func() {
		_, err := io.Copy(&got, in)
		read <- err
	}()
	deliver(t, s, "1", "2")
	deliver(t, s, "3")
	out.Close()
	if err := <-read; err != nil || got.String() != "1\n2\n3\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
}
