//go:build linux

// Package tracertest prepares tests that load the kernel side: a mount namespace of
// their own with a bpffs, so that no pin outlives them.
package tracertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

const (
	bpffs = "/sys/fs/bpf"
	stage = "LNGTEST_STAGE" // set in the process that has the namespace
)

// Main runs the tests in a mount namespace of their own, with an empty bpffs, and
// returns their exit code. Without root it runs them as they are, and New skips.
func Main(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	if os.Getenv(stage) == "" {
		return restage()
	}
	if err := mountBPFFS(); err != nil {
		fmt.Fprintln(os.Stderr, "tracertest:", err)
		return 1
	}
	code := m.Run()
	left, err := filepath.Glob(bpffs + "/lngtest-*")
	if err != nil || len(left) > 0 {
		fmt.Fprintln(os.Stderr, "tracertest: tests left pins behind:", left, err)
		return max(code, 1)
	}
	return code
}

// restage runs this test binary again in a mount namespace of its own.
func restage() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	// The test programs' own deadline: half a minute by default.
	seconds := int(require.Slowed(30 * time.Second).Seconds())
	cmd.Env = append(os.Environ(), stage+"=1", fmt.Sprintf("LNGTEST_SECONDS=%d", seconds))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "tracertest:", err)
	return 1
}

func mountBPFFS() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("bpf", bpffs, "bpf", 0, ""); err != nil {
		return fmt.Errorf("mount a bpffs: %w", err)
	}
	return nil
}

var dirs atomic.Uint64

// Dir returns a directory for pins that is unloaded when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	if os.Getenv(stage) == "" {
		t.Skip("needs root, and a bpffs of its own that only root can mount")
	}
	dir := filepath.Join(bpffs, fmt.Sprintf("lngtest-%d", dirs.Add(1)))
	t.Cleanup(func() {
		if err := tracer.Unload(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// New returns a tracer for this test, unloaded when the test ends.
func New(t testing.TB, o tracer.Options) *tracer.Tracer {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	tr, err := tracer.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// FromEnv is a number that can be raised on a machine that only runs this test.
func FromEnv(t testing.TB, name string, fallback int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return fallback
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a positive number", name, s)
	}
	return n
}
