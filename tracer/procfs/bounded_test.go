//go:build linux

package procfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
	"golang.org/x/sys/unix"
)

// within fails the test if f takes much longer than a read may.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(require.Slowed(10 * time.Second)):
		t.Fatalf("%s: it hangs", what)
	}
}

// A process whose exec waits for a dead file server delays its readers, but does not stop them.
func TestStuckExec(t *testing.T) {
	fs, pid := procfs.FS("/proc"), procfstest.Stuck(t)
	for what, read := range map[string]func(){
		"environ":       func() { _, _ = fs.Read(pid, "environ", procfs.MaxFile) },
		"command line":  func() { fs.Cmdline(pid) },
		"stat":          func() { _, _ = fs.Stat(pid) },
		"executable":    func() { fs.Link(pid, "exe") },
		"PID namespace": func() { _, _ = fs.PIDNamespace(pid) },
		"name":          func() { fs.Comm(pid) },
	} {
		within(t, what, read)
	}
	_, err := fs.Read(pid, "environ", procfs.MaxFile)
	require.ErrorIs(t, err, procfs.ErrStuck, "its environment")
	if s, err := fs.Stat(uint32(os.Getpid())); err != nil || s.PID == 0 {
		t.Errorf("another process: %v", err)
	}
}

// What does not return is not read again until it has.
func TestBounded(t *testing.T) {
	fs := procfs.FS(t.TempDir())
	for pid, plant := range map[uint32]func(path string) error{
		300: func(path string) error { return unix.Mkfifo(path, 0o600) },
		301: func(path string) error { return os.WriteFile(path, []byte("a\x00"), 0o600) },
	} {
		path := fs.Path(pid, "cmdline")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, plant(path))
	}
	for range 100 { // would take long if each waited
		within(t, "a stuck process", func() {
			if argv, _ := fs.Cmdline(300); argv != nil {
				t.Errorf("%q", argv)
			}
		})
	}
	if argv, _ := fs.Cmdline(301); string(argv) != "a\x00" {
		t.Errorf("another process: %q", argv)
	}
	release, err := os.OpenFile(fs.Path(300, "cmdline"), os.O_WRONLY, 0)
	require.NoError(t, err)
	release.Close()
	require.NoError(t, os.Remove(fs.Path(300, "cmdline")))
	require.Eventually(t, "it is read again", func() bool {
		_, err := fs.Read(300, "cmdline", procfs.MaxFile)
		return errors.Is(err, os.ErrNotExist)
	})
}

// A read that does not return is left, and those after it are done.
func TestBoundedEach(t *testing.T) {
	release := make(chan struct{})
	keys := []string{"a", "stuck", "b", "stuck", "c"}
	each := make([]procfs.Key, len(keys))
	for i, name := range keys {
		each[i] = procfs.UserKey(name, 1000)
	}
	within(t, "five reads", func() {
		for i, r := range procfs.BoundedEach(each, func(i int) (int, error) {
			if keys[i] == "stuck" {
				<-release
			}
			return i, nil
		}) {
			if keys[i] == "stuck" && !errors.Is(r.Err, procfs.ErrStuck) || keys[i] != "stuck" && (r.Err != nil || r.Value != i) {
				t.Errorf("%d %s: %+v", i, keys[i], r)
			}
		}
	})
	close(release)
	require.Eventually(t, "it is read again", func() bool {
		n, err := procfs.Bounded(each[1], func() (int, error) { return 7, nil })
		return err == nil && n == 7
	})
}

// A read that panics does so in the goroutine that waits for it, and counts as returned.
func TestBoundedPanic(t *testing.T) {
	for range 2 {
		p := procfs.CatchPanic(func() {
			_, _ = procfs.Bounded(procfs.KeyOf("/lngtest"), func() (int, error) { panic("lngtest-panic") })
		})
		if p == nil || p.Value != "lngtest-panic" || !strings.Contains(string(p.Stack), "TestBoundedPanic") {
			t.Errorf("%v", p)
		}
	}
	if n, err := procfs.Bounded(procfs.KeyOf("/lngtest"), func() (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Error(n, err)
	}
}
