//go:build linux

package httpapi_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// world is a daemon with what these tests do to it.
type world struct{ *daemontest.Daemon }

func newWorld(t *testing.T, options ...daemontest.Option) *world {
	t.Helper()
	return &world{daemontest.New(t, options...)}
}
