//go:build linux

package tracer_test

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

func TestMain(m *testing.M) { os.Exit(tracertest.Main(m)) }
