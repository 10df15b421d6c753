//go:build linux

package export

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// fetched is a program that "make test-export" builds. The tests that need one are too slow for every change.
func fetched(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("LNGTEST_TELEMETRY")
	if dir == "" {
		t.Skip("LNGTEST_TELEMETRY is not set; run make test-export")
	}
	return filepath.Join(dir, name)
}

// serves waits until something listens on an address.
func serves(t *testing.T, p *stage.Process, addr string) {
	t.Helper()
	for deadline := time.Now().Add(stage.Patience); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) || p.Exited() {
			t.Fatalf("%v: %v; it said: %.2000s", p.Args, err, p.Err.String()+p.Out.String())
		}
	}
}
