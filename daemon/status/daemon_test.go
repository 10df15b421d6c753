//go:build linux

package status_test

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// world is a daemon with what these tests do to it.
type world struct{ *daemontest.Daemon }

func newWorld(t *testing.T, options ...daemontest.Option) *world {
	t.Helper()
	return &world{daemontest.New(t, options...)}
}
