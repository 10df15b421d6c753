//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A kernel gives the level that its version promises: a test that skips for
// want of it skips for a reason.
func TestOpen(t *testing.T) {
	t0 := time.Now()
	tr := tracertest.New(t, tracer.Options{})
	f := tr.Features()
	t.Logf("opened in %v, features %+v", time.Since(t0), f)
	want := 2
	switch {
	case kernelIsAtLeast(t, 6, 16) && !realtime():
		want = 4
	case kernelIsAtLeast(t, 6, 13):
		want = 3
	}
	if f.Level != want {
		t.Errorf("level %d, want %d: %v", f.Level, want, f.Missing)
	}
}

func kernelIsAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		t.Fatal(err)
	}
	return a > major || a == major && b >= minor
}

func realtime() bool {
	b, err := os.ReadFile("/sys/kernel/realtime")
	return err == nil && len(b) > 0 && b[0] == '1'
}
