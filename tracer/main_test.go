//go:build linux

package tracer_test

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(openOnly); dir != "" {
		os.Exit(openAndExit(dir))
	}
	os.Exit(tracertest.Main(m))
}
