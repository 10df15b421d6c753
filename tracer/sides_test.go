//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// everySide runs a test with each kernel side that this kernel can load: the one that
// it gets by default, and the one for old kernels.
func everySide(t *testing.T, test func(*testing.T, tracer.Options)) {
	t.Run("best", func(t *testing.T) { test(t, tracer.Options{}) })
	if !tracertest.AtLeast(t, 6, 7) {
		return // the default was the one for old kernels
	}
	t.Run("baseline", func(t *testing.T) { test(t, tracer.Options{Baseline: true}) })
}

// onEachSide is everySide for a test that has no other options.
func onEachSide(t *testing.T, test func(*testing.T, *tracer.Tracer)) {
	everySide(t, func(t *testing.T, o tracer.Options) { test(t, tracertest.New(t, o)) })
}
