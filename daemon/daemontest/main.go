//go:build linux

package daemontest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// Main runs the tests of a package, and fails if they leave goroutines or descriptors behind.
func Main(m *testing.M) int {
	before, goroutines := Descriptors(), runtime.NumGoroutine()
	code := tracertest.Main(m)
	// Connections that were just closed need a moment, and a full history that is being written longer.
	ctx, cancel := context.WithTimeout(context.Background(), require.Patience)
	err := system.Poll(ctx, func() (bool, error) { return runtime.NumGoroutine() <= goroutines, nil })
	cancel()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" // which leaves a goroutine
	if err != nil && code == 0 && !fuzzing {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		code = 1
	}
	if after := Descriptors(); code == 0 && len(after) > len(before) {
		fmt.Fprintf(os.Stderr, "descriptors were left open: %v, before %v\n", after, before)
		code = 1
	}
	return code
}

// Descriptors are the files that this process has open.
func Descriptors() (open []string) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && filepath.Base(to) != "fd" && !strings.HasPrefix(to,
			"anon_inode:[event") {
			open = append(open, to)
		}
	}
	return open
}
