//go:build linux

package tracertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// AtLeast reports whether the running kernel is of that version, or newer.
func AtLeast(t testing.TB, major, minor int) bool {
	t.Helper()
	u := uname(t)
	var a, b int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	require.NoError(t, err)
	return a > major || a == major && b >= minor
}

// Promised is the guarantee level that the running kernel's version promises.
func Promised(t testing.TB) int {
	t.Helper()
	u := uname(t)
	realtime := slices.Contains(strings.Fields(unix.ByteSliceToString(u.Version[:])), "PREEMPT_RT")
	switch {
	case AtLeast(t, 6, 16) && !realtime:
		return 4
	case AtLeast(t, 6, 13):
		return 3
	}
	return 2
}

// NeedsLevel skips a test if this kernel has a lower level than the test needs, and
// fails it if this kernel should have that level.
func NeedsLevel(t testing.TB, level, has int) {
	t.Helper()
	if has < level {
		Lacks(t, Promised(t) >= level, fmt.Sprintf("this kernel has level %d, this takes level %d", has, level))
	}
}

// Lacks skips a test because of something that this kernel lacks, and fails it if this
// kernel should have it.
func Lacks(t testing.TB, should bool, why any) {
	t.Helper()
	if should {
		t.Fatalf("this kernel should have it: %v", why)
	}
	t.Skip(why)
}

func uname(t testing.TB) *unix.Utsname {
	t.Helper()
	u := new(unix.Utsname)
	require.NoError(t, unix.Uname(u))
	return u
}
