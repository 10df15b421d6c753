//go:build linux

package export

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// onDemand skips tests that are too slow for every change, and returns the directory of
// programs that only they need.
func onDemand(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LNGTEST_TELEMETRY")
	if dir == "" {
		t.Skip("LNGTEST_TELEMETRY is not set; run make test-export")
	}
	return dir
}

// fetched is a program that "make test-export" builds.
func fetched(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(onDemand(t), name)
}

// freeAddr is an address that nothing listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
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

// documented is the configuration of the Collector in docs/TELEMETRY.md, with other addresses.
func documented(t *testing.T, addr, to string) string {
	t.Helper()
	page := require.ReadFile(t, filepath.Join(repository, "docs/TELEMETRY.md"))
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/TELEMETRY.md has no configuration")
	}
	// Its own metrics would take a port of the host.
	return strings.NewReplacer("127.0.0.1:4318", addr, "127.0.0.1:4319", to, "service:\n", "service:\n  telemetry: {metrics: {level: none}}\n").Replace(text)
}

// TestCollector is TestDelivery through a real OpenTelemetry Collector, which is killed.
func TestCollector(t *testing.T) {
	program := fetched(t, "collector")
	i := stage.NewDaemon(t)
	r := newReceiver(t)
	addr, config := freeAddr(t), filepath.Join(i.Dir, "collector.yaml")
	require.NoError(t, os.WriteFile(config, []byte(documented(t, addr, r.addr)), 0o600))
	var collector *stage.Process
	up := func() {
		collector = stage.Start(t, exec.Command(program, "--config", "file:"+config))
		serves(t, collector, addr)
	}
	up()
	outages(t, i, r, addr, func() { collector.Process.Signal(syscall.SIGKILL); collector.Wait() }, up)
}
